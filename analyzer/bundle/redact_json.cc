// Redactor::Json: secrets are known by their keys too.
#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "analyzer/bundle/redactor.h"
#include "watchdog/settings/redact.h"
#include "watchdog/settings/token_forms.h"

namespace ncclwatch::analyzer {
namespace {

using Document = nlohmann::ordered_json;
using settings::SecretName;

constexpr int kDeepest =
    200;  // of what is in one another: more is no document of ours, and would need much of the stack

bool IsDeep(const Document& value, int depth = 0) {
  return value.is_structured() && (depth > kDeepest || std::any_of(value.begin(), value.end(), [&](const auto& item) {
                                     return IsDeep(item, depth + 1);
                                   }));
}

void HideAll(Document* value) {
  if (value->is_string() && !value->get_ref<const std::string&>().empty()) *value = "***";
  if (value->is_number()) *value = 0;
  if (value->is_structured())
    for (auto& item : *value) HideAll(&item);
}

// {"name": "HF_TOKEN", "value": "x"}
SecretName KindOfRow(const Document& object, std::string_view names) {
  for (const char* key : {"name", "key", "what", "variable", "option"})
    if (const auto found = object.find(key); found != object.end() && found->is_string())
      if (const SecretName kind = settings::KindOfName(found->get_ref<const std::string&>(), names);
          kind != SecretName::kNo && kind != SecretName::kPerhaps)
        return kind;
  return SecretName::kNo;
}

bool IsOfRow(std::string_view key) { return key == "value" || key == "values" || key == "before" || key == "after"; }

class Walk {
 public:
  Walk(std::string_view names, const std::function<std::string(std::string_view)>& change)
      : names_(names), change_(change) {}

  void Value(Document* value) const {
    if (value->is_string()) *value = change_(value->get_ref<const std::string&>());
    if (value->is_array()) Array(value);
    if (value->is_object()) Object(value);
  }

 private:
  // Words may be a command's: then one says what the next one is.
  void Array(Document* array) const {
    std::string words;
    for (const auto& item : *array)
      if (item.is_string()) words.append(item.get_ref<const std::string&>()).push_back('\0');
    settings::HideSecrets(words.data(), words.size(), names_);
    std::size_t from = 0;
    for (auto& item : *array) {
      if (item.is_string()) {
        const std::size_t size = item.get_ref<const std::string&>().size();
        item = words.substr(from, size);
        from += size + 1;
      }
      Value(&item);
    }
  }

  void Object(Document* object) const {
    const SecretName row = KindOfRow(*object, names_);
    Document made = Document::object();
    for (auto& [key, item] : object->items()) {
      const SecretName kind = IsOfRow(key) && row != SecretName::kNo ? row : settings::KindOfName(key, names_);
      if (IsSecret(kind, item))
        HideAll(&item);
      else
        Value(&item);
      made[IsOfSchema(key) ? key : change_(key)] = std::move(item);
    }
    *object = std::move(made);
  }

  static bool IsSecret(SecretName kind, const Document& item) {
    if (kind == SecretName::kNo) return false;
    if (kind == SecretName::kPerhaps)
      return item.is_string() && settings::LooksRandom(item.get_ref<const std::string&>());
    return kind != SecretName::kToken || !item.is_number();
  }

  // Keys of documents, which a host may be called like.
  static bool IsOfSchema(std::string_view key) {
    return key.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string_view::npos;
  }

  const std::string_view names_;
  const std::function<std::string(std::string_view)>& change_;
};

}  // namespace

std::optional<std::string> Redactor::JsonLine(std::string_view line, int indent) {
  auto read = Document::parse(line, nullptr, /*allow_exceptions=*/false);
  if (read.is_discarded() || IsDeep(read)) return std::nullopt;
  const std::function<std::string(std::string_view)> change = [this](std::string_view text) { return Text(text); };
  Walk(secret_names_, change).Value(&read);
  return read.dump(indent, ' ', false, Document::error_handler_t::replace);
}

std::optional<std::string> Redactor::Json(std::string_view document) {
  if (auto whole = JsonLine(document, 1)) return *whole + "\n";
  std::string made;
  while (!document.empty()) {
    const std::string_view line = document.substr(0, document.find('\n'));
    document.remove_prefix(std::min(document.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto one = JsonLine(line, -1);
    if (!one) return std::nullopt;
    made += *one + "\n";
  }
  return made;
}

std::string Redactor::JsonLines(std::string_view lines) {
  std::string made;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    if (line.empty()) continue;
    const auto one = JsonLine(line, -1);
    made += (one ? *one : Text(line)) + "\n";
  }
  return made;
}

}  // namespace ncclwatch::analyzer
