// What all formats for recorded calls have in common.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analyzer/console/progress.h"
#include "analyzer/trace/facts.h"
#include "analyzer/trace/filter.h"
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
  // Of the calls that are wanted. How many there were; or why a file could not be written.
  virtual absl::StatusOr<std::uint64_t> Write(const Filter& filter, Progress* progress,
                                              std::vector<reader::Failure>* failures) = 0;

  const std::vector<std::string>& files() const { return files_; }
  const std::vector<std::string>& notes() const { return notes_; }  // what the reader of the files should know

 protected:
  std::vector<std::string> files_, notes_;
};

// Takes the calls one by one, by time.
class CallExporter : public Exporter {
 public:
  explicit CallExporter(const Source& source) : source_(source) {}
  absl::StatusOr<std::uint64_t> Write(const Filter& filter, Progress* progress,
                                      std::vector<reader::Failure>* failures) override;

 protected:
  virtual absl::Status Add(const MergedCall& merged, const Facts& facts) = 0;
  virtual absl::Status Finish() = 0;

  const Source source_;

 private:
  absl::StatusOr<std::uint64_t> AddAll(const MergedBatch& batch, const Filter& filter);
};

}  // namespace ncclwatch::analyzer::exporting
