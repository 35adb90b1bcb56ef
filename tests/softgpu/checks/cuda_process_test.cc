// Fork, exit, and settings that a process reads once.
#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/softgpu/checks/cuda_support.h"

namespace {
bool in_fork_child = false;
}

// Asked by LeakSanitizer at exit: in a fork child it would wait for a lock that another thread held at the fork.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() { return in_fork_child; }

namespace softgpu {
namespace {

CUstream StreamOfDeviceZero() {
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  if (cuInit(0) != CUDA_SUCCESS) abort();
  if (cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS || cuCtxSetCurrent(context) != CUDA_SUCCESS) abort();
  if (cuStreamCreate(&stream, CU_STREAM_DEFAULT) != CUDA_SUCCESS) abort();
  return stream;
}

int StatusOf(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Process, NothingWorksBeforeInitialisation) {
  int count = 0;
  CUdeviceptr memory = 0;
  EXPECT_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(cuMemAlloc(&memory, 16), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(cuInit(1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuInit(0));
  EXPECT_CU(cuDeviceGetCount(&count));
  EXPECT_EQ(cuMemAlloc(&memory, 16), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(Process, AForkChildIsReportedThatItHasNoDriver) {
  CUstream stream = StreamOfDeviceZero();
  CUevent event = nullptr;
  ASSERT_CU(cuEventCreate(&event, 0));
  ASSERT_CU(softgpuStall(stream, -1));
  pid_t child = fork();
  if (child == 0) {
    in_fork_child = true;
    alarm(20);  // a deadlock ends the child, and the check fails
    int count = 0;
    CUdeviceptr memory = 0;
    int wrong = 0;
    wrong += cuInit(0) != CUDA_ERROR_NOT_INITIALIZED;
    wrong += cuDeviceGetCount(&count) != CUDA_ERROR_NOT_INITIALIZED;
    wrong += cuMemAlloc(&memory, 16) != CUDA_ERROR_NOT_INITIALIZED;
    wrong += cuStreamSynchronize(stream) != CUDA_ERROR_NOT_INITIALIZED;
    wrong += cuStreamDestroy(stream) != CUDA_ERROR_NOT_INITIALIZED;
    wrong += cuEventQuery(event) != CUDA_ERROR_NOT_INITIALIZED;
    wrong += cudaGetDeviceCount(&count) != cudaErrorInitializationError;
    wrong += cudaStreamSynchronize(stream) != cudaErrorInitializationError;
    wrong += cudaSetDevice(0) != cudaErrorInitializationError;
    exit(wrong);  // not _exit: destructors run with the parent's objects in the child
  }
  EXPECT_EQ(StatusOf(child), 0);
  ASSERT_CU(softgpuRelease(stream));
  EXPECT_CU(cuStreamSynchronize(stream));
}

TEST(Process, AForkBeforeInitialisationLeavesBothFree) {
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    CUstream stream = StreamOfDeviceZero();
    _exit(softgpuStall(stream, 1) == CUDA_SUCCESS && cuStreamSynchronize(stream) == CUDA_SUCCESS ? 0 : 1);
  }
  EXPECT_EQ(StatusOf(child), 0);
  EXPECT_CU(cuStreamSynchronize(StreamOfDeviceZero()));
}

class StuckProcess : public ::testing::Test {
 protected:
  // The child re-executes this program, so that its driver is its own.
  StuckProcess() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

void StickAndThen(void (*end)()) {
  alarm(20);
  CUstream stream = StreamOfDeviceZero();
  if (softgpuStall(stream, -1) != CUDA_SUCCESS) abort();
  if (cuStreamWriteValue32(stream, 0, 0, 0) != CUDA_ERROR_INVALID_VALUE) abort();
  auto never = [](void*) { abort(); };
  if (cuLaunchHostFunc(stream, never, nullptr) != CUDA_SUCCESS) abort();
  end();
}

TEST_F(StuckProcess, ExitDoesNotWaitForAStream) {
  EXPECT_EXIT(StickAndThen([] { exit(7); }), ::testing::ExitedWithCode(7), "");
}

TEST_F(StuckProcess, ExitDoesNotWaitForAWaitingStream) {
  EXPECT_EXIT(
      {
        alarm(20);
        CUstream stream = StreamOfDeviceZero();
        CUdeviceptr memory = 0;
        if (cuMemAlloc(&memory, 16) != CUDA_SUCCESS) abort();
        if (cuStreamWaitValue32(stream, memory, 1, CU_STREAM_WAIT_VALUE_EQ) != CUDA_SUCCESS) abort();
        exit(8);
      },
      ::testing::ExitedWithCode(8), "");
}

class Environment : public ::testing::Test {
 protected:
  Environment() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }

  void TearDown() override {
    for (const char* name : {"SOFTGPU_DEVICES", "SOFTGPU_MEMORY", "SOFTGPU_NO_MEMOPS", "SOFTGPU_NO_HOST_REGISTER",
                             "CUDA_VISIBLE_DEVICES"}) {
      unsetenv(name);
    }
  }
};

TEST_F(Environment, SetsTheNumberOfDevicesAndTheirMemory) {
  setenv("SOFTGPU_DEVICES", "3", 1);
  setenv("SOFTGPU_MEMORY", "1M", 1);
  EXPECT_EXIT(
      {
        StreamOfDeviceZero();
        int count = 0;
        size_t total = 0;
        CUdeviceptr memory = 0;
        cuDeviceGetCount(&count);
        cuDeviceTotalMem(&total, 2);
        CUresult too_much = cuMemAlloc(&memory, (1 << 20) + 1);
        exit(count == 3 && total == 1 << 20 && too_much == CUDA_ERROR_OUT_OF_MEMORY ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(Environment, HidesDevices) {
  setenv("CUDA_VISIBLE_DEVICES", "5,2,99,1", 1);
  EXPECT_EXIT(
      {
        int count = 0;
        char bus_id[16] = "";
        cuInit(0);
        cuDeviceGetCount(&count);
        cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), 1);
        exit(count == 2 && std::string(bus_id) == "0000:03:00.0" ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_EXIT(exit(cuInit(0) == CUDA_ERROR_NO_DEVICE ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

TEST_F(Environment, TakesAbilitiesAway) {
  setenv("SOFTGPU_NO_MEMOPS", "1", 1);
  setenv("SOFTGPU_NO_HOST_REGISTER", "1", 1);
  EXPECT_EXIT(
      {
        CUstream stream = StreamOfDeviceZero();
        CUdeviceptr memory = 0;
        cuMemAlloc(&memory, 16);
        static char page[4096];
        bool refused = cuStreamWriteValue64(stream, memory, 1, 0) == CUDA_ERROR_NOT_SUPPORTED &&
                       cuStreamWaitValue32(stream, memory, 0, 0) == CUDA_ERROR_NOT_SUPPORTED &&
                       cuMemHostRegister(page, sizeof(page), 0) == CUDA_ERROR_NOT_SUPPORTED;
        exit(refused ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace softgpu
