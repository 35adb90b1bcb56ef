// Every verdict of the tests beside this file is the same where the hub makes it, of boxes that other nodes have sent.
#include <gtest/gtest.h>

#include "core/diagnose.h"
#include "core/nodes/image_code.h"
#include "core/report/render.h"
#include "tests/unit/support/job_builder.h"

namespace ncclwatch::testing {
namespace {

reader::BoxImage ThereAndBack(const reader::BoxImage& image) {
  nodes::Writer to;
  nodes::WriteImage(image, &to);
  nodes::Reader from(to.bytes());
  reader::BoxImage copy;
  EXPECT_TRUE(nodes::ReadImage(&from, &copy) && from.Done());
  return copy;
}

class Sent : public ::testing::Environment {
 public:
  void SetUp() override {
    Job::on_judged = [](diagnosis::Snapshot snapshot, const diagnosis::Diagnosis& diagnosis) {
      for (reader::BoxImage& box : snapshot.boxes) box = ThereAndBack(box);
      EXPECT_EQ(diagnosis::ToJson(diagnosis::Diagnose(snapshot)), diagnosis::ToJson(diagnosis));
    };
  }
};
const auto* const kSent = ::testing::AddGlobalTestEnvironment(new Sent);

}  // namespace
}  // namespace ncclwatch::testing
