// See signals.h: segmentation faults, and divisions of integers by zero.
#include "signals.h"

#include <signal.h>
#include <ucontext.h>

#include <cstdlib>

#include "block.h"
#include "memory.h"

namespace {

constexpr int caught[] = {SIGSEGV, SIGBUS, SIGFPE};
struct sigaction before[NSIG];
constexpr size_t signal_stack_bytes = 64 << 10;
__thread stack_t host_signal_stack, own_signal_stack;

std::string describe_access(uintptr_t address, bool write) {
  std::string what = running_block->shared_or_stack(address);
  return std::string(write ? "write" : "read") + " at an address that is " + (what.empty() ? whereabouts(address) : what);
}

void on_signal(int signal, siginfo_t* information, void* context) {
  if (!running_block) {
    sigaction(signal, &before[signal], nullptr);  // it happens again, and is handled as it would have been
    return;
  }
  if (signal == SIGFPE) running_block->fault(CUDA_ERROR_LAUNCH_FAILED, "division of an integer by zero");
  constexpr long long write_bit = 2;
  bool write = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & write_bit;
  running_block->fault(CUDA_ERROR_ILLEGAL_ADDRESS, describe_access(reinterpret_cast<uintptr_t>(information->si_addr), write));
}

bool is_ours(const struct sigaction& action) { return (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == on_signal; }

}  // namespace

void catch_signals() {
  for (int signal : caught) {
    struct sigaction ours {}, current;
    sigaction(signal, nullptr, &current);
    if (is_ours(current)) continue;
    before[signal] = current;
    ours.sa_sigaction = on_signal;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;  // NODEFER: the handler never returns, it switches fibers
    sigaction(signal, &ours, nullptr);
  }
}

SignalStack::SignalStack() {
  if (!own_signal_stack.ss_sp) {
    own_signal_stack.ss_sp = malloc(signal_stack_bytes);
    own_signal_stack.ss_size = signal_stack_bytes;
  }
  sigaltstack(&own_signal_stack, &host_signal_stack);
}

SignalStack::~SignalStack() { sigaltstack(&host_signal_stack, nullptr); }
