// Calls on stacks that come and go: coroutines.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <cerrno>
#include <csetjmp>
#include <cstddef>
#include <iterator>

#include "tests/unit/shim/fake_nccl.h"
#include "tests/unit/shim/support.h"

namespace ncclwatch::shim_test {
namespace {

constexpr std::size_t kStack = std::size_t{512} * 1024;
ucontext_t caller, coroutine;
ncclComm_t used;
ncclResult_t result;

void Body() { result = AllReduce(used); }
// A coroutine that runs one call on `stack`, and comes back when it ends, or by a jump out of the call.
void RunOn(char* stack) {
  getcontext(&coroutine);
  coroutine.uc_stack = {stack, 0, kStack};
  coroutine.uc_link = &caller;
  makecontext(&coroutine, Body, 0);
  swapcontext(&caller, &coroutine);
}

enum class Left { kUnmapped, kForbidden, kUnmappedWhereNobodyMayReadMemory };
class ShimLeftStacks : public ::testing::TestWithParam<Left> {};

// As older containers do.
void ForbidReadingMemory() {
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{std::size(code), code};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) GTEST_SKIP() << "no filters here";
}

// The call that was left behind lies on the upper stack, which is gone when the lower one makes a call.
TEST_P(ShimLeftStacks, ACallLeftBehindOnAStackThatIsGone) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer looks in front of thread-local memory, where the stack that is gone may have been";
#endif
  used = MakeComm();
  const OwnBox box;
  char* stacks = static_cast<char*>(
      mmap(nullptr, 2 * kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0));
  ASSERT_NE(stacks, MAP_FAILED);
  FakeOnCall([] { setcontext(&caller); });
  RunOn(stacks + kStack);
  FakeOnCall(nullptr);
  if (GetParam() == Left::kForbidden)
    mprotect(stacks + kStack, kStack, PROT_NONE);
  else
    munmap(stacks + kStack, kStack);
  if (GetParam() == Left::kUnmappedWhereNobodyMayReadMemory) ForbidReadingMemory();
  const std::uint64_t before = box.head();
  result = ncclNumResults;
  RunOn(stacks);
  EXPECT_EQ(result, ncclSuccess);
  EXPECT_EQ(box.head(), before + 1);
  EXPECT_NE(box.Newest().returned, 0u);
  munmap(stacks, 2 * kStack);
}
INSTANTIATE_TEST_SUITE_P(All, ShimLeftStacks,
                         ::testing::Values(Left::kUnmapped, Left::kForbidden, Left::kUnmappedWhereNobodyMayReadMemory));

jmp_buf before_the_call;

[[gnu::noinline]] void LeaveACall() {
  volatile char room[64 * 1024];
  room[0] = 1;
  AllReduce(used, room[0]);
}
// Its frame covers the place of the call that was left, and writes nothing there.
[[gnu::noinline]] void CallFromALargeFrame() {
  volatile char room[256 * 1024];
  room[0] = 1;
  result = AllReduce(used, std::size_t{7} * room[0]);
}
TEST(ShimStacks, ACallLeftBehindWhereNobodyWritesOverIt) {
  used = MakeComm();
  const OwnBox box;
  FakeOnCall([] { longjmp(before_the_call, 1); });
  if (setjmp(before_the_call) == 0) LeaveACall();
  FakeOnCall(nullptr);
  const std::uint64_t before = box.head();
  CallFromALargeFrame();
  EXPECT_EQ(result, ncclSuccess);
  EXPECT_EQ(box.head(), before + 1);
  EXPECT_EQ(box.Newest().count, 7u);
}

// The way from the inner call to the outer one was gone before, and the outer one is left, each time anew.
[[gnu::noinline]] void CallInside() { result = AllReduce(used, 99); }
TEST(ShimStacks, ACallLeftBehindByAWayThatIsKnown) {
  used = MakeComm();
  const OwnBox box;
  for (int round = 0; round < 3; ++round) {
    const std::uint64_t before = box.head();
    FakeOnCall([] {
      FakeOnCall(nullptr);
      CallInside();
    });
    AllReduce(used);
    EXPECT_EQ(box.head(), before + 1);
    FakeOnCall([] {
      FakeOnCall(nullptr);
      CallInside();
      longjmp(before_the_call, 1);
    });
    if (setjmp(before_the_call) == 0) LeaveACall();
    EXPECT_EQ(box.head(), before + 2);
    CallFromALargeFrame();
    EXPECT_EQ(box.head(), before + 3);
    EXPECT_EQ(box.Newest().count, 7u);
  }
}

// A tool's wrapper, or a callback, that calls NCCL again from inside a call.
void ExpectInnerCallsUnrecorded() {
  used = MakeComm();
  const OwnBox box;
  const std::uint64_t before = box.head();
  FakeOnCall([] {
    FakeOnCall(nullptr);
    result = AllReduce(used, 99);
  });
  EXPECT_EQ(AllReduce(used, 5), ncclSuccess);
  EXPECT_EQ(result, ncclSuccess);
  EXPECT_EQ(box.head(), before + 1);
  EXPECT_EQ(box.Newest().count, 5u);
}
TEST(ShimStacks, ACallInsideACallIsNotRecorded) { ExpectInnerCallsUnrecorded(); }
TEST(ShimStacks, ACallInsideACallWhereNobodyMayReadMemory) {
  ForbidReadingMemory();
  if (!IsSkipped() && !HasFatalFailure()) ExpectInnerCallsUnrecorded();
}

}  // namespace
}  // namespace ncclwatch::shim_test
