// --name value, --name, and words.
#pragma once

#include <absl/strings/str_split.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tests/jobs/simulator/program.h"

namespace ncclwatch::jobs {

class Options {
 public:
  Options(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      if (!word.starts_with("--")) {
        words_.push_back(word);
      } else if (i + 1 < argc && !std::string(argv[i + 1]).starts_with("--")) {
        values_[word.substr(2)] = argv[++i];
      } else {
        values_[word.substr(2)] = "";
      }
    }
  }
  bool Has(const std::string& name) const { return values_.contains(name); }
  std::string Text(const std::string& name, const std::string& otherwise) const {
    const auto found = values_.find(name);
    return found == values_.end() ? otherwise : found->second;
  }
  std::uint64_t Number(const std::string& name, std::uint64_t otherwise) const {
    return Has(name) ? std::strtoull(Text(name, "").c_str(), nullptr, 10) : otherwise;
  }
  // Separated by commas.
  std::vector<std::string> List(const std::string& name, const std::vector<std::string>& otherwise) const {
    if (!Has(name)) return otherwise;
    return absl::StrSplit(Text(name, ""), ',', absl::SkipEmpty());
  }
  Shape OneShape() const {
    return {.topology = Text("topology", "data"),
            .fault = Text("fault", "healthy"),
            .ranks = static_cast<int>(Number("ranks", 8)),
            .steps = static_cast<int>(Number("steps", 0)),
            .seed = Number("seed", 1),
            .late = Has("late")};
  }
  const std::vector<std::string>& words() const { return words_; }

 private:
  std::map<std::string, std::string> values_;
  std::vector<std::string> words_;
};

}  // namespace ncclwatch::jobs
