#include "watchdog/exchange/token.h"

#include <sys/stat.h>

#include "watchdog/exchange/sha256.h"
#include "watchdog/rundir/hydra.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::exchange {
namespace {

Token TokenOf(std::string_view label, std::string_view content) {
  const HmacKey key(Bytes(label));
  return Token{key.Of({content})};
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

Token TokenOfSecret(std::string_view secret) { return TokenOf("ncclwatch token of a secret", secret); }

Token TokenOfJob(std::string_view job_identity) { return TokenOf("ncclwatch token of a job", job_identity); }

Token TokenOfUniqueId(std::span<const std::uint8_t, 128> id) { return TokenOf("ncclwatch token of an id", Text(id)); }

std::string NodeName(const std::string& run_directory) {
  struct stat directory {};
  std::string telling = rundir::BootId() + "\n";
  if (stat(run_directory.c_str(), &directory) == 0)
    telling += std::to_string(directory.st_dev) + "\n" + std::to_string(directory.st_ino);
  else
    telling += run_directory;
  Sha256 hash;
  hash.Update(telling);
  const Digest digest = hash.Finish();
  constexpr char kDigits[] = "0123456789abcdef";
  std::string name;
  for (std::size_t i = 0; i < 16; ++i) {
    name += kDigits[digest[i] >> 4];
    name += kDigits[digest[i] & 15];
  }
  return name;
}

}  // namespace ncclwatch::exchange
