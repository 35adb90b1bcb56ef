#include "watchdog/evidence/ignore_file.h"

#include <cstring>

#include "core/text/printable.h"
#include "watchdog/settings/plain_file.h"

namespace ncclwatch::evidence {

std::vector<diagnosis::IgnoreLine> ReadIgnoreFile(const std::string& path, std::vector<std::string>* wrong) {
  constexpr std::size_t kMostBytes = 1 << 20;
  if (path.empty()) return {};
  const settings::PlainFile file = settings::ReadPlain(path.c_str(), kMostBytes, true);
  if (file.error != 0) {
    wrong->push_back(path + ": " + std::strerror(file.error));
    return {};
  }
  diagnosis::IgnoreList list = diagnosis::ParseIgnoreList(file.text);
  for (const std::string& line : list.wrong) wrong->push_back(path + ": " + Printable(line));
  return std::move(list.lines);
}

}  // namespace ncclwatch::evidence
