// Names behind which a secret stands: of options, variables, keys of JSON, headers, parameters of URLs.
#pragma once

#include <string_view>

namespace ncclwatch::settings {

enum class SecretName {
  kNo,
  kPerhaps,   // `key`, `pass`, `signature`: only what looks random is a secret, unless a command line gives it
  kToken,     // `token`: a number is none
  kYes,       // `password`, `api_key`
  kSentence,  // `Authorization`, `Cookie`: all that follows in the line
};

// By the last part of a name (--api-key, HF_TOKEN, clientSecret; not --tokenizer, --max-tokens, --key-file). Names that
// `more` has are secrets too: comma-separated, with `*` for any characters. No memory is asked for.
SecretName KindOfName(std::string_view name, std::string_view more) noexcept;

// Whether what a variable or an option of this name has is a secret.
bool IsSecretName(std::string_view name, std::string_view more) noexcept;

}  // namespace ncclwatch::settings
