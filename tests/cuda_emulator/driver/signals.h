// A host signal while device code runs is that code's fault, and ends its launch.
#pragma once

// Takes the signals, unless we have them; while no device code runs they go to whoever had them before.
void catch_signals();

// For the time of a launch on this host thread: signal handlers get a stack of their own.
class SignalStack {
 public:
  SignalStack();
  ~SignalStack();
};
