// What hides secrets and names (watchdog/settings/redact.h, analyzer/bundle/redactor.h), over any bytes. What must
// hold: no crash; a secret that is put into the bytes is not in what comes out, and neither is a name that is known;
// lengths stay where a black box has to keep its layout; what is hidden stays hidden, and is the same, a second time.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "analyzer/bundle/redactor.h"
#include "tests/support/made_secrets.h"
#include "watchdog/settings/redact.h"

namespace {

using namespace ncclwatch;

constexpr std::string_view kHost = "zq-host17", kAddress = "2001:db8::4:1:17", kMail = "qz.user@qz.example.com";

void Require(bool holds) {
  if (!holds) std::abort();
}

bool Has(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

std::string InPlace(std::string text) {
  settings::HideSecrets(text.data(), text.size(), "");
  return text;
}

// Divided from the bytes around, so that it is no other word; between the two halves of them.
std::string Planted(std::string_view bytes, std::string_view word) {
  const std::string_view before = bytes.substr(0, bytes.size() / 2), behind = bytes.substr(bytes.size() / 2);
  std::string text(before);
  return text.append("\n ").append(word).append(" \n").append(behind);
}

void CheckSecrets(std::string_view bytes, std::string_view secret) {
  const std::string text = Planted(bytes, secret), once = settings::Redacted(text, "x*"), hidden = InPlace(text);
  Require(!Has(once, secret) && !Has(hidden, secret) && hidden.size() == text.size());
  Require(settings::Redacted(once, "x*") == once && InPlace(hidden) == hidden);
  settings::CommandText(bytes, false, "x*");
}

void CheckNames(std::string_view bytes) {
  analyzer::Redactor redactor("x*");
  redactor.LearnHost(kHost);
  redactor.Learn(bytes);
  for (const std::string_view word : {kHost, kAddress, kMail}) {
    if (Has(bytes, word)) continue;  // as a part of another word, which stays
    const std::string text = Planted(bytes, word), redacted = redactor.Text(text);
    Require(!Has(redacted, word) && redacted.size() == text.size());
  }
  const std::string line = nlohmann::json{{"password", std::string(kHost)}, {"text", Planted("", kHost)}}.dump();
  const auto document = redactor.Json(line);
  Require(document && !Has(*document, kHost) && nlohmann::json::accept(*document));
  if (const auto own = redactor.Json(bytes); own)
    Require(!own->empty() || bytes.find_first_not_of(" \t\r\n") == bytes.npos);
  redactor.JsonLines(bytes);
  std::string box(bytes);
  redactor.Box(&box);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > (16 << 10)) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::size_t state = 1;
  for (const std::uint8_t byte : std::basic_string_view<std::uint8_t>(data, size)) state = state * 31 + byte;
  const auto draw = [&] { return (state = state * 6364136223846793005u + 1442695040888963407u) >> 33; };
  const tests::Form& form = tests::kForms[draw() % std::size(tests::kForms)];
  CheckSecrets(bytes, tests::MadeSecret(form, draw));
  CheckNames(bytes);
  return 0;
}
