#include "watchdog/exchange/rendezvous/token.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "watchdog/exchange/protocol/crypto.h"
#include "watchdog/exchange/rendezvous/unique_id.h"
#include "watchdog/rundir/hydra.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::exchange {
namespace {

Token TokenOf(std::string_view label, std::string_view content) {
  const HmacKey key(Bytes(label));
  return Token{key.Of({content}), false};
}

// Before 2.16 NCCL puts nothing but an address there: a family, a port and so on, which anybody can see.
bool IsOnlyAnAddress(std::span<const std::uint8_t, 128> id) {
  return id[1] == 0 && (id[0] == AF_INET || id[0] == AF_INET6);
}

void Append(std::string* text, const rundir::Lookup& lookup, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    text->push_back('/');
    text->append(lookup(name).value_or(std::string_view()));
  }
}

}  // namespace

std::string JobIdentity(const rundir::Lookup& lookup) {
  std::string text;
  switch (rundir::PlaceFrom(lookup).launcher) {
    case rundir::Launcher::kTorchrun:
      text = "torchrun";
      Append(&text, lookup, {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"});
      break;
    case rundir::Launcher::kPlain:
      if (!lookup("MASTER_ADDR")) return {};
      text = "plain";
      Append(&text, lookup, {"MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID", "SLURM_STEP_ID"});
      break;
    case rundir::Launcher::kSlurm:
      text = "slurm";
      Append(&text, lookup, {"SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"});
      break;
    case rundir::Launcher::kOpenMpi:
      text = "openmpi";
      Append(&text, lookup, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"});
      break;
    case rundir::Launcher::kMpich:
      if (!lookup("PMI_JOBID") && !lookup(rundir::kHydraPort)) return {};
      text = "mpich";
      Append(&text, lookup, {"PMI_JOBID", rundir::kHydraPort});
      break;
    case rundir::Launcher::kNone: return {};
  }
  Append(&text, lookup, {"NCCLWATCH_JOB"});
  return text;
}

Token TokenOfSecret(std::string_view secret, std::string_view job_name) {
  const Token token = TokenOf("ncclwatch token of a secret", secret);
  if (job_name.empty()) return token;
  const HmacKey key(token.bytes);
  return Token{key.Of({"ncclwatch job ", job_name}), false};
}

Token TokenOfJob(std::string_view job_identity) {
  Token token = TokenOf("ncclwatch token of a job", job_identity);
  token.guessable = true;
  return token;
}

Token TokenOfUniqueId(std::span<const std::uint8_t, 128> id) {
  Token token = TokenOf("ncclwatch token of an id", Text(id));
  token.guessable = IsOnlyAnAddress(id) && !TailOf(id);
  return token;
}

std::string IdentityOfSecret(const Token& token) {
  return "secret/" + Hex(TokenOf("ncclwatch identity of a secret", Text(token.bytes)).bytes);
}

std::string FileNameOf(std::string_view job_identity) {
  const Token hash = TokenOf("ncclwatch file of a job", job_identity);
  return Hex(std::span(hash.bytes).first(12));
}

std::string NodeName(const std::string& run_directory) {
  struct stat directory {};
  std::string telling = rundir::BootId() + "\n";
  if (stat(run_directory.c_str(), &directory) == 0)
    telling += fmt::format("{}\n{}", directory.st_dev, directory.st_ino);
  else
    telling += run_directory;
  const Digest digest = HashOf({telling});
  return Hex(std::span(digest).first(16));
}

}  // namespace ncclwatch::exchange
