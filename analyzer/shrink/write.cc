#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "analyzer/files/output_file.h"
#include "analyzer/shrink/program_text.h"
#include "analyzer/shrink/settle.h"
#include "analyzer/shrink/shrink.h"
#include "core/model/text.h"
#include "core/text/printable.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kNcclMakefile[] =
    R"(# make && make run. Every rank needs a GPU, or shares one where NCCL lets it. Status 124: it was stopped.
CUDA_HOME ?= /usr/local/cuda
CPPFLAGS += -I$(CUDA_HOME)/include
LDFLAGS += -L$(CUDA_HOME)/lib64
LDLIBS += -lnccl -lcudart
export TIMEOUT ?= 60

repro: repro.cc
	$(CXX) $(CPPFLAGS) $(CXXFLAGS) -o $@ $< $(LDFLAGS) $(LDLIBS)

run: repro
	$(WATCH) ./repro

clean:
	rm -f repro

.PHONY: run clean
)";

constexpr char kMpiMakefile[] = R"(# make && make run. Status 124: it was stopped.
MPICC ?= mpicc
MPIRUN ?= mpirun
export TIMEOUT ?= 60

repro: repro.c
	$(MPICC) $(CPPFLAGS) $(CFLAGS) -o $@ $< $(LDFLAGS) $(LDLIBS)

run: repro
	$(WATCH) timeout -k 5 $$(($(TIMEOUT) + 10)) $(MPIRUN) -n {ranks} ./repro

clean:
	rm -f repro

.PHONY: run clean
)";

constexpr char kReadme[] = R"(# {kind} of {op}

`{source}` makes {calls} calls with {ranks} ranks. {outcome} ncclwatch's verdict, with the processes and call sites of
the recorded job:

```
{verdict}
```

Build and run it, without ncclwatch:

```
make
make run              # ends by itself after 60 s; TIMEOUT=10 for less
```

Each rank prints when it has finished its calls. After the time limit, the other ranks print the call in which they
are, and the run ends with status 124, as timeout(1) would.{stays}

Under ncclwatch:

```
make run WATCH="ncclwatch run --"
```

`ncclwatch replay --shrink` made it from a recording of {calls_before} calls of {ranks_before} ranks. It left out ranks,
communicators and calls as long as its model of {library} came to the same verdict on the program that remained. Rank
numbers are this program's{was}. Amounts, types, roots and tags are as recorded. Data are not.
)";

// The libraries compare nothing.
const char* OutcomeText(diagnosis::Kind kind) {
  using diagnosis::Kind;
  const bool differ =
      kind == Kind::kOrderMismatch || kind == Kind::kArgumentMismatch || kind == Kind::kPointToPointMismatch;
  return differ ? "It hangs, fails or ends with wrong data, depending on the library." : "It does not come to its end.";
}

std::string WasText(const Job& job) {
  std::string text;
  for (std::size_t rank = 0; rank < job.was.size(); ++rank)
    text += fmt::format("{}{} was {}", text.empty() ? "" : ", ", rank, job.was[rank]);
  return text.empty() ? "" : ": " + text;
}

std::string StaysText(const Shrunk& shrunk) {
  std::vector<std::int32_t> ranks;
  for (const auto& [rank, otherwise] : shrunk.stays) ranks.push_back(rank);
  if (ranks.empty()) return "";
  return fmt::format("\n\nAfter its calls, {} stays: without it there would be another fault.",
                     diagnosis::Ranks(ranks));
}

ProgramRequest RequestOf(const Shrunk& shrunk) {
  ProgramRequest request;
  request.title = fmt::format("{} of {}: shrunk from a recording of {} ranks by ncclwatch. See README.md.",
                              diagnosis::Name(shrunk.fault.kind), shrunk.fault.op, shrunk.ranks_before);
  request.ranks = static_cast<int>(shrunk.job.was.size());
  request.stays = shrunk.stays;
  for (const StoppedCall& call : shrunk.fault.stopped) request.stopped.insert(call.rank);
  return request;
}

}  // namespace

absl::StatusOr<std::string> WriteProgram(const Shrunk& shrunk, const std::string& directory) {
  const bool mpi = SpeaksMpi(shrunk.job);
  if (mpi && SpeaksNccl(shrunk.job))
    return absl::UnimplementedError("the fault needs calls of both MPI and NCCL, which cannot be written yet");
  const Recording recording = Recording::Of(shrunk.job.boxes);
  const auto program = RecordedProgram::Make(recording, {}, {});
  if (!program.ok()) return program.status();
  const std::string source = mpi ? "repro.c" : "repro.cc";
  const ProgramRequest request = RequestOf(shrunk);
  const Fates fates(recording);
  const auto text = mpi ? MpiProgramText(**program, fates, request) : NcclProgramText(**program, fates, request);
  if (!text.ok()) return text.status();
  if (absl::Status made = MakeFolders(directory); !made.ok()) return made;
  std::error_code error;
  if (std::filesystem::exists(directory + "/" + source, error))
    return absl::AlreadyExistsError(directory + " holds a program already");
  const std::string readme =
      fmt::format(kReadme, fmt::arg("kind", diagnosis::Name(shrunk.fault.kind)), fmt::arg("op", shrunk.fault.op),
                  fmt::arg("source", source), fmt::arg("outcome", OutcomeText(shrunk.fault.kind)),
                  fmt::arg("calls", shrunk.calls()), fmt::arg("ranks", shrunk.job.was.size()),
                  fmt::arg("verdict", PrintableLines(shrunk.fault.text)), fmt::arg("calls_before", shrunk.calls_before),
                  fmt::arg("ranks_before", shrunk.ranks_before), fmt::arg("library", mpi ? "MPI" : "NCCL"),
                  fmt::arg("was", WasText(shrunk.job)), fmt::arg("stays", StaysText(shrunk)));
  std::string makefile = mpi ? kMpiMakefile : kNcclMakefile;
  if (mpi) makefile.replace(makefile.find("{ranks}"), 7, fmt::format("{}", shrunk.job.was.size()));
  for (const auto& [name, content] : {std::pair(source, *text), std::pair(std::string("Makefile"), makefile),
                                      std::pair(std::string("README.md"), readme)})
    if (absl::Status written = WriteFile(directory + "/" + name, content); !written.ok()) return written;
  return source;
}

}  // namespace ncclwatch::analyzer
