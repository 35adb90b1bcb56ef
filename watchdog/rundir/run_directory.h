// Naming, making and finding run directories. Two jobs, and two attempts of a job, never share one.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "watchdog/settings/settings.h"

namespace ncclwatch::rundir {

// Who this process is in its job, as the launcher's environment tells.
struct Launch {
  std::string job;            // readable name plus a hash of what tells this job from others of the same name
  std::uint32_t attempt = 0;  // torchrun's restart count, Slurm's restart
  std::int32_t rank = -1;
  std::int32_t world_size = 0;
  std::int32_t local_rank = -1;
  std::int32_t local_world_size = 0;
  std::string master_address;
  std::int32_t master_port = 0;
};
Launch FromLauncher(const settings::Settings& settings, settings::Getenv getenv);

struct Made {
  std::string path;
  std::string remark;  // not empty: why it is not the first choice; one line, to be said once
};
struct Refused {
  std::string reason;
};
// Makes (or joins) the run directory, mode 0700, with room for `bytes` more: NCCLWATCH_DIR, else
// /dev/shm/ncclwatch-<uid>/<job>, else $TMPDIR, else /tmp. Refuses links and other people's directories.
std::variant<Made, Refused> Make(const settings::Settings& settings, const Launch& launch, std::uint64_t bytes);

struct Listed {
  std::string path;
  std::string job;
  std::uint32_t attempt = 0;
  int boxes = 0;
  int alive = 0;            // boxes whose lock is held
  std::int64_t modified_ns = 0;  // CLOCK_REALTIME of the newest change
};
std::vector<Listed> List(const settings::Settings& settings);  // newest first, all default places and NCCLWATCH_DIR

}  // namespace ncclwatch::rundir
