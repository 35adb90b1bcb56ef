#include "analyzer/export/calls/csv.h"

#include "analyzer/files/output_file.h"
#include "analyzer/trace/write_lines.h"

namespace ncclwatch::analyzer::exporting {
namespace {

class Csv : public Exporter {
 public:
  Csv(const Source& source, const std::string& path) : source_(source) { files_.push_back(path); }

  absl::StatusOr<std::uint64_t> Write(const Filter& filter, Progress* progress,
                                      std::vector<reader::Failure>* failures) override {
    OutputFile file;
    if (absl::Status status = file.Open(files_.front()); !status.ok()) return status;
    file.Write(CsvHeading()).IgnoreError();
    std::uint64_t written = 0;
    const auto lines = WriteLines(source_.recording, filter, LineForm::kCsv, &source_.sites, failures,
                                  [&](std::string_view text, std::uint64_t count) {
                                    progress->Done(written += count);
                                    return file.Write(text);
                                  });
    if (!lines.ok()) return lines;
    if (absl::Status status = file.Close(); !status.ok()) return status;
    return lines;
  }

 private:
  const Source source_;
};

}  // namespace

std::unique_ptr<Exporter> ToCsv(const Source& source, const std::string& path) {
  return std::make_unique<Csv>(source, path);
}

}  // namespace ncclwatch::analyzer::exporting
