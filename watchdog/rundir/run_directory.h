// Naming, making and finding run directories. Two jobs, and two attempts of a job, never share one.
//
// Layout: <place>/job names the job whose directory it is (one line: Launch::job; made with its content or not at
// all). The boxes of attempt 0 lie in <place> itself, those of attempt N in <place>/attempt-N. A place that another job
// has taken stays as it is: the next job gets <place>/run-1, run-2, ... with the same layout below. `latest`, a link
// beside them, names the newest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "watchdog/rundir/patience.h"
#include "watchdog/settings/settings.h"

namespace ncclwatch::rundir {

// "In use", of a run directory in which no black box says so yet: a shared lock (flock) on the directory itself. Who
// enters holds one from before its claim until its box is there, `ncclwatch run` from before the first rank starts.
// Who removes the directory must have the exclusive one.

class Hold {
 public:
  // Null: it is gone, was removed while this waited, or is being removed for too long (*removing says which).
  // Where the file system knows no such locks the directory is held in name only.
  static std::shared_ptr<const Hold> Of(const std::string& path, bool* removing);
  ~Hold();
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  explicit Hold(int fd) : fd_(fd) {}
  int fd_;
};

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
  // A launcher started this one job only (torchrun, srun, mpirun). A shell or a script may start several, one after the
  // other, that nothing in their environment tells apart: then boxes of an earlier one close a directory.
  bool own_launcher = false;
};
// `patience`: with the processes above this one, which are asked for their environment.
Launch FromLauncher(const settings::Settings& settings, settings::Getenv getenv, const Patience& patience = {});

struct Made {
  std::string path;
  std::string top;       // of the job: `path`, or where its attempt lies
  std::size_t size = 0;  // index into the sizes asked for
  bool by_name = false;  // NCCLWATCH_DIR, or below it
  // Not empty: why it is not the first choice; one line. Given to the process that took the place for its job only, so
  // that a job says it once.
  std::string remark;
  std::shared_ptr<const Hold> hold;  // keeps it from being removed until the process's black box does
};
struct Refused {
  std::string reason;
};
// Makes (or joins) the run directory, mode 0700, with room for a black box: NCCLWATCH_DIR, else
// /dev/shm/ncclwatch-<uid>/<job>, else $TMPDIR, else /tmp. `sizes`: bytes of one box, the best first; a smaller box
// comes before another place (room.h). Refuses links and other people's directories. Never throws.
std::variant<Made, Refused> Make(const settings::Settings& settings, const Launch& launch,
                                 const std::vector<std::uint64_t>& sizes);

// The directories that hold run directories by default, first choice first: /dev/shm/ncclwatch-<uid>, ...
std::vector<std::string> DefaultBases();

struct Listed {
  std::string path;
  std::string job;
  std::uint32_t attempt = 0;
  int boxes = 0;
  int alive = 0;                 // boxes whose lock is held
  std::int64_t modified_ns = 0;  // CLOCK_REALTIME of the newest change
};
// Newest first, all default places and NCCLWATCH_DIR. Only what is the caller's alone: *refused (may be null) gets a
// line for each place that is there and is not.
std::vector<Listed> List(const settings::Settings& settings, std::vector<std::string>* refused = nullptr);

}  // namespace ncclwatch::rundir
