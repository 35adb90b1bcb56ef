// Secrets in texts, made unreadable before anything is kept, printed or sent: command lines, variables, what an
// exception says, events, logs. What is a secret: the value behind a secret name (secret_name.h: `--password x`,
// `HF_TOKEN=x`, `"token": "x"`, `Authorization: Bearer x`, `?sig=x`), user and password in a URL, tokens of a known
// form (token_forms.h), private keys, and what a few programs take as a password (`curl -u`).
//
// The time is linear in the length. What is redacted stays as it is if it is redacted again.
#pragma once

#include <string>
#include <string_view>

#include "watchdog/settings/secret_name.h"

namespace ncclwatch::settings {

// The text with *** for each secret. Words of a command line may be divided by zero bytes, which stay, or by blanks.
std::string Redacted(std::string_view text, std::string_view more);

// The same in place: a star for each letter of a secret, a 0 for each digit of one that is a number. Line ends and zero
// bytes stay. It takes no memory and no lock.
void HideSecrets(char* text, std::size_t size, std::string_view more) noexcept;

// A command line as the kernel keeps it, for people: redacted, with blanks between its words. `whole` is false if the
// text was cut: then its last word may be a secret without its end, and is left out.
std::string CommandText(std::string_view words, bool whole, std::string_view more);

}  // namespace ncclwatch::settings
