// Which tokens this leader has. What lies in files is looked for in a thread beside: a file system of the network may
// answer late, or never.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "watchdog/exchange/protocol/exchange.h"

namespace ncclwatch::watch {

struct TokenWish {
  std::string secret;      // NCCLWATCH_TOKEN
  std::string file;        // NCCLWATCH_TOKEN_FILE, which counts before it
  std::string job_name;    // NCCLWATCH_JOB
  std::string out, state;  // where a secret of the job's own may be kept: shared by the nodes for sure, perhaps
  std::string base;        // of `state`: must be there, or it is nobody's home
  std::string name;        // of its file
  bool GivenByUser() const { return !secret.empty() || !file.empty(); }
};

struct FoundTokens {
  std::vector<exchange::Token> tokens;  // at most one; none is guessable
  bool everywhere = false;              // the other nodes have it too
  std::string directory;                // of the job's own secret
  std::string refused;                  // there is to be no exchange, and why; one line
};
FoundTokens FindTokens(const TokenWish& wish);  // may take as long as the file systems like

class TokenSearch {
 public:
  explicit TokenSearch(const TokenWish& wish);
  // None as long as it is not known.
  std::optional<FoundTokens> Found() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // with its thread
};

}  // namespace ncclwatch::watch
