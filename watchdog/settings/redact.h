// Secrets in command lines, made unreadable before anything is kept, printed or sent.
#pragma once

#include <string>
#include <string_view>

namespace ncclwatch::settings {

// Whether what goes by this name is a secret: password, token, secret, key and their like as the last part of it
// (--api-key, HF_TOKEN, clientSecret; not --tokenizer, --max-tokens, --key-file), or a name of `more`, comma-separated
// with `*` for any characters.
bool IsSecretName(std::string_view name, std::string_view more);

// The text with *** for each secret: the value behind a secret name (`--password x`, `--api-key=x`, `HF_TOKEN=x`,
// `"token": "x"`, `Authorization: Bearer x`), user and password in a URL, and words that begin as well-known keys do.
// Words of a command line may be divided by zero bytes, which stay, or by blanks.
std::string Redacted(std::string_view text, std::string_view more);

// A command line as the kernel keeps it, for people: redacted, with blanks between its words. `whole` is false if the
// text was cut: then its last word may be a secret without its end, and is left out.
std::string CommandText(std::string_view words, bool whole, std::string_view more);

}  // namespace ncclwatch::settings
