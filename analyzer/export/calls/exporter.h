// What all formats for recorded calls have in common: calls go in by time, files come out.
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <string>
#include <vector>

#include "analyzer/trace/facts.h"
#include "analyzer/trace/sites.h"
#include "core/model/finding.h"

namespace ncclwatch::analyzer::exporting {

struct Source {
  const Recording& recording;
  std::function<diagnosis::Diagnosis()> diagnose;  // for people: with source lines in its texts
  Sites& sites;
};

class Exporter {
 public:
  Exporter() = default;
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;
  virtual ~Exporter() = default;
  virtual absl::Status Add(const MergedCall& merged, const Facts& facts) = 0;
  virtual absl::Status Finish() = 0;

  const std::vector<std::string>& files() const { return files_; }
  const std::vector<std::string>& notes() const { return notes_; }  // what the reader of the files should know

 protected:
  std::vector<std::string> files_, notes_;
};

}  // namespace ncclwatch::analyzer::exporting
