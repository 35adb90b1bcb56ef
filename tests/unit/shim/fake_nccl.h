// Steering of the libnccl that tests of the recorder stand on. Declares nothing of NCCL's itself.
#pragma once

#include <string>
#include <vector>

struct ncclComm;

std::vector<std::string> FakeCalls();         // names of the calls that arrived since the last time
void FakeNextResult(int result);              // of the next recorded call, once
void FakeSettle(ncclComm* comm, int result);  // what ncclCommGetAsyncError says from now on
void FakeOnCall(void (*run)());               // runs inside every recorded call; null: nothing
int FakeQuestions();                          // about rank, size or device, since the last time
ncclComm* FakeUnseen(int rank, int size);     // a communicator made behind everybody's back
