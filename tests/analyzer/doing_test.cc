// What a look at a thread says it is doing.
#include "analyzer/meanwhile/doing.h"

#include <gtest/gtest.h>

#include "analyzer/meanwhile/counters.h"

namespace ncclwatch::meanwhile {
namespace {

using reader::Doing;
using stacks::Frame;
using stacks::OpenFile;
using stacks::Thread;

Frame Python(const char* function, const char* file) {
  Frame frame;
  frame.kind = Frame::Kind::kPython;
  frame.function = function;
  frame.file = file;
  return frame;
}

Frame Native(const char* function, const char* module) {
  Frame frame;
  frame.function = function;
  frame.module = module;
  return frame;
}

Thread In(std::vector<Frame> frames, char state = 'S') {
  Thread thread;
  thread.frames = std::move(frames);
  thread.state = state;
  return thread;
}

Activity ByCall(const char* call, int descriptor, OpenFile::Kind kind) {
  const Thread thread = In({});
  OpenFile file;
  file.kind = kind;
  file.path = kind == OpenFile::Kind::kFile ? "/data/17.bin" : "";
  file.file_system = kind == OpenFile::Kind::kFile ? "nfs4" : "";
  file.mounted_on = "/data";
  Seen seen;
  seen.thread = &thread;
  seen.call = call;
  seen.descriptor = descriptor;
  seen.file = file;
  return ActivityOf(seen);
}

Doing ByFrames(std::vector<Frame> frames, const char* call = "futex") {
  const Thread thread = In(std::move(frames));
  Seen seen;
  seen.thread = &thread;
  seen.call = call;
  return ActivityOf(seen).doing;
}

TEST(Doing, BySystemCall) {
  EXPECT_EQ(ByCall("read", 5, OpenFile::Kind::kFile).doing, Doing::kInput);
  EXPECT_EQ(ByCall("read", 5, OpenFile::Kind::kFile).words, "in read of /data/17.bin (nfs4, mounted on /data)");
  EXPECT_EQ(ByCall("read", 0, OpenFile::Kind::kPipe).doing, Doing::kInput);
  EXPECT_EQ(ByCall("read", 5, OpenFile::Kind::kSocket).doing, Doing::kNetwork);
  EXPECT_EQ(ByCall("read", 5, OpenFile::Kind::kOther).doing, Doing::kOther);
  EXPECT_EQ(ByCall("fsync", 5, OpenFile::Kind::kFile).doing, Doing::kCheckpoint);
  EXPECT_EQ(ByCall("pwrite64", 5, OpenFile::Kind::kFile).doing, Doing::kCheckpoint);
  EXPECT_EQ(ByCall("write", 2, OpenFile::Kind::kFile).doing, Doing::kFileSystem) << "a log";
  EXPECT_EQ(ByCall("close", 5, OpenFile::Kind::kFile).doing, Doing::kFileSystem);
  EXPECT_EQ(ByCall("openat", -1, OpenFile::Kind::kNone).doing, Doing::kFileSystem);
  EXPECT_EQ(ByCall("clock_nanosleep", -1, OpenFile::Kind::kNone).doing, Doing::kAsleep);
  EXPECT_EQ(ByCall("futex", -1, OpenFile::Kind::kNone).doing, Doing::kLock);
  EXPECT_EQ(ByCall("wait4", -1, OpenFile::Kind::kNone).doing, Doing::kOther);
}

TEST(Doing, ByFrames) {
  EXPECT_EQ(ByFrames({Native("poll", "libc.so.6"), Python("_try_get_data", "/v/torch/utils/data/dataloader.py")}),
            Doing::kInput);
  EXPECT_EQ(ByFrames({Native("write", "libc.so.6"), Python("_save", "/v/torch/serialization.py")}), Doing::kCheckpoint);
  EXPECT_EQ(ByFrames({Python("Trainer._save_checkpoint", "/app/trainer.py")}), Doing::kCheckpoint);
  EXPECT_EQ(ByFrames({Native("SaveCheckpoint(int)", "train")}), Doing::kCheckpoint);
  EXPECT_EQ(ByFrames({Native("MPI_File_write_all", "libmpi.so.40")}), Doing::kCheckpoint);
  EXPECT_EQ(ByFrames({Native("PMPI_Recv", "libmpi.so.40")}), Doing::kCall);
  EXPECT_EQ(ByFrames({Native("cuStreamSynchronize", "libcuda.so.1")}), Doing::kGpu);
  // Activations that are computed again are no checkpoint that is written.
  EXPECT_EQ(ByFrames({Python("checkpoint", "/v/torch/utils/checkpoint.py")}), Doing::kLock);
  EXPECT_EQ(ByFrames({Python("load", "/v/torch/serialization.py")}), Doing::kLock);
}

TEST(Doing, ByState) {
  Thread thread = In({}, 'R');
  Seen seen;
  seen.thread = &thread;
  seen.running = true;
  EXPECT_EQ(ActivityOf(seen).doing, Doing::kRunning);
  thread.state = 'T';
  EXPECT_EQ(ActivityOf(seen).doing, Doing::kStopped);
  thread.state = 'D';
  seen.running = false;
  EXPECT_EQ(ActivityOf(seen).doing, Doing::kPaging);
  thread.waits_on = "in the kernel: folio_wait_bit_common < filemap_fault";
  EXPECT_EQ(ActivityOf(seen).doing, Doing::kInput) << "of a mapped file";
}

TEST(Doing, MountsAndLimits) {
  const std::string mountinfo =
      "27 0 254:0 / / rw - ext4 /dev/vda rw\n42 27 0:39 / /data rw,nosuid shared:1 master:2 - fuse.gcsfuse bucket rw\n";
  OpenFile file;
  FindMount(mountinfo, 42, &file);
  EXPECT_EQ(file.file_system, "fuse.gcsfuse");
  EXPECT_EQ(file.mounted_on, "/data");
  OpenFile other;
  FindMount(mountinfo, 4, &other);
  EXPECT_EQ(other.file_system, "");
  EXPECT_EQ(ThrottledNs("nr_periods 5\nnr_throttled 2\nthrottled_usec 12\n"), 12000);
  EXPECT_EQ(ThrottledNs("nr_periods 5\nnr_throttled 2\nthrottled_time 12\n"), 12);
  EXPECT_EQ(ThrottledNs("usage_usec 5\n"), 0);
}

}  // namespace
}  // namespace ncclwatch::meanwhile
