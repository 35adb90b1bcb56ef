#include "analyzer/bundle/redact_files.h"

#include "analyzer/bundle/redactor.h"

namespace ncclwatch::analyzer {

void RedactFiles(const NamesToHide& names, std::vector<std::pair<std::string, std::string>>* files) {
  Redactor redactor;
  for (const std::string& host : names.hosts) redactor.LearnHost(host);
  for (const std::string& user : names.users) redactor.LearnUser(user);
  for (const auto& [name, bytes] : *files) redactor.Learn(bytes);
  for (const std::string& command : names.commands) redactor.LearnCommand(command);
  for (const std::string& path : names.paths) redactor.Text(path);
  for (auto& [name, bytes] : *files)
    bytes = name.ends_with(".json") ? redactor.Json(bytes).value_or("") : redactor.Text(bytes);
}

}  // namespace ncclwatch::analyzer
