// Damage to a real black box. The input is a list of (offset, length, bytes) patches, so that the fuzzer needs not
// learn a 70 KB layout first; an odd first byte cuts the file short.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "core/diagnose.h"
#include "core/reader/box.h"
#include "core/reader/left_out.h"
#include "core/report/render.h"
#include "core/view/from_boxes.h"
#include "tests/fuzz/input.h"
#include "tests/unit/support/job_builder.h"

namespace {

using ncclwatch::fuzz::Patch;
using ncclwatch::testing::Job;

const std::vector<char>& Whole() {
  static const std::vector<char> bytes = [] {
    Job job(2);
    job.Done({0, 1}, Job::kWorld, ncclwatch::testing::AllReduce());
    job.Call({0}, Job::kWorld, ncclwatch::testing::AllGather());
    job.Message(0, Job::kWorld, ncclwatch::functions::Function::ncclSend, 1);
    job.Die(1, Job::Signal(9));
    return ncclwatch::testing::BoxBytes(job.Snapshot().boxes[0]);
  }();
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int descriptor = ::memfd_create("box", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  std::vector<char> bytes = Whole();
  if (size > 0 && data[0] % 2 == 1) {
    bytes.assign(reinterpret_cast<const char*>(data), reinterpret_cast<const char*>(data) + size);
  } else if (size > 1) {
    Patch(data + 1, size - 1, 9, &bytes);  // small numbers reach all sections
  }
  if (::ftruncate(descriptor, 0) != 0) return 0;
  if (::pwrite(descriptor, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return 0;
  auto mapped = ncclwatch::reader::MappedBox::Open(path);
  if (auto* box = std::get_if<std::unique_ptr<ncclwatch::reader::MappedBox>>(&mapped)) (*box)->Image();
  for (const std::uint64_t newest : {UINT64_MAX, std::uint64_t{2}}) {
    auto read = ncclwatch::reader::ReadBox(path, newest);
    auto* image = std::get_if<ncclwatch::reader::BoxImage>(&read);
    if (image == nullptr) continue;
    const auto diagnosis = ncclwatch::diagnosis::Diagnose(ncclwatch::diagnosis::FromBoxes({*image, *image}));
    ncclwatch::diagnosis::ToJson(diagnosis);
    ncclwatch::diagnosis::ToText(diagnosis);
    ncclwatch::reader::PutBack(image);
  }
  return 0;
}
