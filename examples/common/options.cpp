#include "common/options.h"

#include <cstdio>
#include <cstdlib>

namespace examples {

Options::Options(int argc, char** argv, std::map<std::string, long> defaults) : values_(std::move(defaults)) {
  values_.insert({{"rank", 2}, {"step", 10}, {"steps", 100}, {"step-ms", 20}, {"seed", 1}, {"count", 4096}});
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    auto at = name.rfind("--", 0) == 0 ? values_.find(name.substr(2)) : values_.end();
    char* end = nullptr;
    long value = i + 1 < argc ? std::strtol(argv[i + 1], &end, 10) : 0;
    if (at == values_.end() || !end || *end) {
      std::fprintf(stderr, "%s: `%s` is no option with a whole number; there are:", argv[0], name.c_str());
      for (const auto& [known, otherwise] : values_) std::fprintf(stderr, " --%s (%ld)", known.c_str(), otherwise);
      std::fprintf(stderr, "\n");
      std::exit(2);
    }
    at->second = value;
  }
}

}  // namespace examples
