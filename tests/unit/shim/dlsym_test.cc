// Our dlsym, in front of the C library's.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstring>

#include "tests/unit/shim/support.h"

namespace {

// Before any constructor of any library has run.
void* early_strlen = nullptr;
void* early_nccl = nullptr;
void Early(int, char**, char**) {
  early_strlen = dlsym(RTLD_DEFAULT, "strlen");
  early_nccl = dlsym(RTLD_DEFAULT, "ncclGetVersion");
}
[[gnu::used, gnu::section(".preinit_array")]] void (*const at_once)(int, char**, char**) = Early;

std::string ModuleOf(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) && info.dli_fname ? info.dli_fname : "";
}
bool IsShim(const void* address) { return ModuleOf(address).find("libncclwatch") != std::string::npos; }

void* Open(const char* path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }

TEST(ShimDlsym, WorksBeforeAnyConstructor) {
  EXPECT_EQ(early_strlen, dlsym(RTLD_DEFAULT, "strlen"));
  EXPECT_NE(early_strlen, nullptr);
  EXPECT_TRUE(IsShim(early_nccl));
}

TEST(ShimDlsym, OtherNamesGoStraightOn) {
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "no_such_function"), nullptr);
  EXPECT_NE(dlerror(), nullptr);
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "n"), nullptr);
  EXPECT_EQ(dlsym(RTLD_DEFAULT, ""), nullptr);
  // RTLD_NEXT is judged by who asks: after this program, not after the library that stands between.
  void* next = dlsym(RTLD_NEXT, "getpid");
  ASSERT_NE(next, nullptr);
  EXPECT_NE(ModuleOf(next).find("libc"), std::string::npos);
}

TEST(ShimDlsym, NcclByHandleGivesTheWrapper) {
  void* handle = Open(SHIM_FAKE_NCCL);
  ASSERT_NE(handle, nullptr) << dlerror();
  EXPECT_TRUE(IsShim(dlsym(handle, "ncclAllReduce")));
  EXPECT_EQ(dlsym(handle, "ncclAllReduce"), dlsym(RTLD_DEFAULT, "ncclAllReduce"));
}

TEST(ShimDlsym, WhatTheLibraryLacksIsNotThere) {
  void* handle = Open(SHIM_FAKE_NCCL);
  dlerror();
  EXPECT_EQ(dlsym(handle, "ncclCommGrow"), nullptr);
  EXPECT_NE(dlerror(), nullptr);
  EXPECT_EQ(dlsym(handle, "ncclNoSuchThing"), nullptr);
  EXPECT_NE(dlerror(), nullptr);
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "ncclCommGrow"), nullptr);
  EXPECT_NE(dlerror(), nullptr);
  void* self = Open(SHIM_LIBRARY);
  ASSERT_NE(self, nullptr);
  EXPECT_EQ(dlsym(self, "ncclCommGrow"), nullptr);
  EXPECT_NE(dlerror(), nullptr);
  EXPECT_TRUE(IsShim(dlsym(self, "ncclAllReduce")));
}

TEST(ShimDlsym, ACallOfAMissingFunctionIsAnErrorAndNoCrash) {
  ncclwatch::shim_test::ExpectSaid(
      [] {
        const ncclResult_t first = ncclRedOpDestroy(static_cast<ncclRedOp_t>(9), nullptr);
        return first == ncclInvalidUsage && ncclRedOpDestroy(static_cast<ncclRedOp_t>(9), nullptr) == first;
      },
      "ncclRedOpDestroy");
}

TEST(ShimDlsym, TwoLibrariesStayApart) {
  void* second = Open(SHIM_SECOND_NCCL);
  ASSERT_NE(second, nullptr) << dlerror();
  auto* all_reduce = reinterpret_cast<decltype(&ncclAllReduce)>(dlsym(second, "ncclAllReduce"));
  auto* init = reinterpret_cast<decltype(&ncclCommInitRank)>(dlsym(second, "ncclCommInitRank"));
  auto* broadcast = reinterpret_cast<decltype(&ncclBcast)>(dlsym(second, "ncclBcast"));
  auto* calls = reinterpret_cast<int (*)()>(dlsym(second, "SecondCalls"));
  EXPECT_TRUE(IsShim(reinterpret_cast<void*>(all_reduce)));
  EXPECT_NE(all_reduce, &ncclAllReduce);
  ncclComm_t first_comm = ncclwatch::shim_test::MakeComm();
  ncclComm_t comm = nullptr;
  ASSERT_EQ(init(&comm, 2, ncclUniqueId{}, 1), ncclSuccess);
  ASSERT_EQ(all_reduce(nullptr, nullptr, 1, ncclInt8, ncclSum, comm, nullptr), ncclSuccess);
  EXPECT_EQ(calls(), 2);
  const ncclwatch::shim_test::OwnBox box;
  EXPECT_EQ(box.Of(comm).library, 1u);
  EXPECT_EQ(box.Of(first_comm).library, 0u);
  EXPECT_EQ(box.Of(comm).entered, 1u);
  // What the second library calls of itself stays in it: ncclBcast reaches ncclBroadcast through its own PLT.
  ASSERT_EQ(broadcast(nullptr, 1, ncclInt8, 0, comm, nullptr), ncclSuccess);
  EXPECT_EQ(calls(), 4);
  EXPECT_EQ(box.Of(comm).entered, 2u);
}

}  // namespace
