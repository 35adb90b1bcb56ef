// Runs a fuzz target over files and the files of folders, for builds without libFuzzer. Its options are accepted.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOptions[] = {"artifact_prefix",
                                         "close_fd_mask",
                                         "data_flow_trace",
                                         "detect_leaks",
                                         "dict",
                                         "exact_artifact_path",
                                         "features_dir",
                                         "focus_function",
                                         "fork",
                                         "help",
                                         "ignore_crashes",
                                         "ignore_ooms",
                                         "ignore_timeouts",
                                         "jobs",
                                         "keep_seed",
                                         "len_control",
                                         "malloc_limit_mb",
                                         "max_len",
                                         "max_total_time",
                                         "merge",
                                         "minimize_crash",
                                         "mutate_depth",
                                         "only_ascii",
                                         "print_coverage",
                                         "print_final_stats",
                                         "print_pcs",
                                         "reduce_inputs",
                                         "reload",
                                         "report_slow_units",
                                         "rss_limit_mb",
                                         "runs",
                                         "seed",
                                         "seed_inputs",
                                         "shuffle",
                                         "stop_file",
                                         "timeout",
                                         "use_value_profile",
                                         "verbosity",
                                         "workers"};

bool IsOption(std::string_view word) {
  const std::size_t equals = word.find('=');
  return equals != word.npos &&
         std::find(std::begin(kOptions), std::end(kOptions), word.substr(1, equals - 1)) != std::end(kOptions);
}

void Run(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<fs::path> files;
  bool ignored = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("-") && !IsOption(word)) {
      std::fprintf(stderr, "%s: unknown option %s\n", argv[0], argv[i]);
      return 2;
    }
    if (word.starts_with("-"))
      ignored = true;
    else if (!fs::is_directory(word))
      files.emplace_back(word);
    else
      std::copy(fs::directory_iterator(word), fs::directory_iterator(), std::back_inserter(files));
  }
  if (ignored)
    std::fprintf(stderr, "options are ignored: this build only replays a corpus; ./dev fuzz builds the fuzzers\n");
  for (const fs::path& path : files) {
    if (!fs::is_regular_file(path)) {
      std::fprintf(stderr, "%s: %s is no file\n", argv[0], path.c_str());
      return 2;
    }
    Run(path);
  }
  std::printf("%zu inputs\n", files.size());
  return files.empty() && !ignored ? 1 : 0;
}
