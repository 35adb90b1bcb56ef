// Secrets in files: the one that a user names, and the random one that a user's own leaders make for themselves in a
// directory that they share. May wait for a file system of the network: not for a thread that has other things to do.
#pragma once

#include <string>
#include <string_view>

namespace ncclwatch::exchange {

struct Secret {
  std::string text;  // empty: there is none
  std::string why;   // then why not; one line, without the path
};

// Only from a regular file of this user or of root that nobody else may read or write, and that is no link. What
// separates lines at its end does not count.
Secret ReadSecret(const std::string& path);

// The content of <directory>/token-<name>, made with 32 random bytes if it is not there: the file appears with its
// content or not at all, so that all who look find the same. The directory (0700) is made too. Secrets that nobody
// has looked at for a week are removed as a new one is made.
Secret SharedSecret(const std::string& directory, std::string_view name);
// Its job still runs.
void KeepSecret(const std::string& directory, std::string_view name);

// Does this path lie on a file system that other machines have too, by its kind?
bool OnNetworkFileSystem(const std::string& path);

}  // namespace ncclwatch::exchange
