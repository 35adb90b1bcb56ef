#include "analyzer/export/calls/csv.h"

#include "analyzer/files/output_file.h"
#include "analyzer/trace/csv.h"

namespace ncclwatch::analyzer::exporting {
namespace {

class Csv : public Exporter {
 public:
  Csv(const Source& source, std::string path) : path_(std::move(path)), lines_(&source.sites) {}

  absl::Status Add(const MergedCall& merged, const Facts& facts) override {
    if (absl::Status status = Open(); !status.ok()) return status;
    line_.clear();
    lines_.Append(merged, facts, &line_);
    return file_.Write(line_);
  }
  absl::Status Finish() override {
    if (absl::Status status = Open(); !status.ok()) return status;
    return file_.Close();
  }

 private:
  absl::Status Open() {
    if (!files_.empty()) return absl::OkStatus();
    files_.push_back(path_);
    if (absl::Status status = file_.Open(path_); !status.ok()) return status;
    return file_.Write(CsvHeading());
  }

  const std::string path_;
  CsvLines lines_;
  OutputFile file_;
  std::string line_;
};

}  // namespace

std::unique_ptr<Exporter> ToCsv(const Source& source, const std::string& path) {
  return std::make_unique<Csv>(source, path);
}

}  // namespace ncclwatch::analyzer::exporting
