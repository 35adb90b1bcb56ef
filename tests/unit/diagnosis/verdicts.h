// A job that has run for a second without a fault, and the verdict that is expected once one is planted.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "core/model/finding.h"
#include "tests/unit/support/job_builder.h"

namespace ncclwatch::testing {

inline constexpr int kWorld = Job::kWorld;

inline Job Running(int ranks) {
  Job job(ranks);
  for (int i = 0; i < 3; ++i) {
    job.Pass(0.05);
    job.Done(Range(0, ranks), kWorld, AllReduce());
  }
  job.At(1);
  return job;
}

inline void Expect(const diagnosis::Diagnosis& diagnosis, diagnosis::Kind kind, diagnosis::Certainty certainty,
                   const std::vector<int>& culprits) {
  ASSERT_FALSE(diagnosis.findings.empty());
  const diagnosis::Finding& finding = diagnosis.findings.front();
  EXPECT_EQ(Name(finding.kind), Name(kind)) << finding.summary;
  EXPECT_EQ(Name(finding.certainty), Name(certainty)) << finding.summary;
  EXPECT_EQ(finding.culprits, culprits) << finding.summary;
}

}  // namespace ncclwatch::testing
