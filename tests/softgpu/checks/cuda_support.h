// What the checks of libcuda share: a context to work in, and a log that stream work writes to.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <list>
#include <mutex>
#include <string>

#include "tests/softgpu/cuda/softgpu.h"

namespace softgpu {

#define ASSERT_CU(expression) ASSERT_EQ(expression, CUDA_SUCCESS)
#define EXPECT_CU(expression) EXPECT_EQ(expression, CUDA_SUCCESS)

class CudaCheck : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_CU(cuInit(0));
    ASSERT_CU(cuDevicePrimaryCtxRetain(&context_, 0));
    ASSERT_CU(cuCtxSetCurrent(context_));
  }

  // Drops the streams, events and memory of the test.
  void TearDown() override {
    EXPECT_CU(cuDevicePrimaryCtxReset(0));
    EXPECT_CU(cuDevicePrimaryCtxRelease(0));
  }

  CUstream NewStream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream stream = nullptr;
    EXPECT_CU(cuStreamCreate(&stream, flags));
    return stream;
  }

  CUevent NewEvent(unsigned flags = CU_EVENT_DEFAULT) {
    CUevent event = nullptr;
    EXPECT_CU(cuEventCreate(&event, flags));
    return event;
  }

  // Adds a host function that appends the letter to the log.
  CUresult Say(CUstream stream, char letter) {
    std::lock_guard lock(log_.mutex);
    log_.notes.push_back({&log_, letter});
    return cuLaunchHostFunc(stream, Append, &log_.notes.back());
  }

  std::string Said() {
    std::lock_guard lock(log_.mutex);
    return log_.text;
  }

  CUcontext context_ = nullptr;

 private:
  struct Log;
  struct Note {
    Log* log;
    char letter;
  };
  struct Log {
    std::mutex mutex;
    std::string text;
    std::list<Note> notes;
  };
  static void Append(void* argument) {
    auto* note = static_cast<Note*>(argument);
    std::lock_guard lock(note->log->mutex);
    note->log->text += note->letter;
  }

  Log log_;
};

}  // namespace softgpu
