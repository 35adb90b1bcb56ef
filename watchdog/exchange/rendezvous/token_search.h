// Where the nodes of a job find a secret that they share. May wait for a file system of the network: not for a thread
// that has other things to do.
#pragma once

#include <string>
#include <vector>

#include "watchdog/exchange/protocol/exchange.h"
#include "watchdog/rundir/launcher.h"

namespace ncclwatch::exchange {

struct TokenRequest {
  std::string secret;      // NCCLWATCH_TOKEN
  std::string file;        // NCCLWATCH_TOKEN_FILE, which counts before it
  std::string job_name;    // NCCLWATCH_JOB
  std::string out, state;  // where a secret of the job's own may be kept: shared by the nodes for sure, perhaps
  std::string base;        // of `state`: must be there, or it is nobody's home
  std::string name;        // of its file
  bool GivenByUser() const { return !secret.empty() || !file.empty(); }
};
// Where the user's nodes may keep a secret of the job's own. `out`: NCCLWATCH_OUT, empty: none.
void PutPlaces(const std::string& out, const rundir::Lookup& lookup, TokenRequest* request);

struct FoundTokens {
  std::vector<Token> tokens;  // at most one; none is guessable
  bool everywhere = false;    // the other nodes have it too
  std::string directory;      // of the job's own secret
  std::string refused;        // there is to be no exchange, and why; one line
};
FoundTokens FindTokens(const TokenRequest& request);  // may take as long as the file systems like

}  // namespace ncclwatch::exchange
