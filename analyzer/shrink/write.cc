#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "analyzer/files/output_file.h"
#include "analyzer/shrink/program_text.h"
#include "analyzer/shrink/shrink.h"
#include "core/model/text.h"
#include "core/text/printable.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kNcclMakefile[] = R"(# make && make run. Every rank needs a GPU, or shares one where NCCL lets it.
CUDA_HOME ?= /usr/local/cuda
CPPFLAGS += -I$(CUDA_HOME)/include
LDFLAGS += -L$(CUDA_HOME)/lib64
LDLIBS += -lnccl -lcudart
TIMEOUT ?= 60

repro: repro.cc
	$(CXX) $(CPPFLAGS) $(CXXFLAGS) -o $@ $< $(LDFLAGS) $(LDLIBS)

run: repro
	timeout -k 5 $(TIMEOUT) $(WATCH) ./repro

clean:
	rm -f repro

.PHONY: run clean
)";

constexpr char kMpiMakefile[] = R"(# make && make run
MPICC ?= mpicc
MPIRUN ?= mpirun
TIMEOUT ?= 60

repro: repro.c
	$(MPICC) $(CPPFLAGS) $(CFLAGS) -o $@ $< $(LDFLAGS) $(LDLIBS)

run: repro
	timeout -k 5 $(TIMEOUT) $(WATCH) $(MPIRUN) -n {ranks} ./repro

clean:
	rm -f repro

.PHONY: run clean
)";

constexpr char kReadme[] = R"(# {kind} of {op}

`{source}` makes {calls} calls with {ranks} ranks. {outcome} What ncclwatch says of them; processes and call sites are
those of the recorded job:

```
{verdict}
```

Build and run it, without ncclwatch:

```
make
make run              # stopped after 60 s, by the status 124 of timeout(1); TIMEOUT=10 for less
```

Under ncclwatch:

```
make run WATCH="ncclwatch run --"
```

It was shrunk from a recording of {calls_before} calls of {ranks_before} ranks: `ncclwatch replay --shrink` left out every
rank, communicator and call without which its model of {library} comes to the same verdict. Rank numbers are this
program's{was}. Amounts, types, roots and tags are as recorded; data are not.
)";

bool Stalls(diagnosis::Kind kind) {
  return kind == diagnosis::Kind::kDeviceStall || kind == diagnosis::Kind::kTransportStall;
}

bool SpeaksMpi(const Job& job) {
  return std::any_of(job.boxes.begin(), job.boxes.end(), [](const reader::BoxImage& box) {
    return std::any_of(box.calls.begin(), box.calls.end(),
                       [](const reader::Call& call) { return functions::IsMpi(call.function); });
  });
}

bool SpeaksNccl(const Job& job) {
  return std::any_of(job.boxes.begin(), job.boxes.end(), [](const reader::BoxImage& box) {
    return std::any_of(box.calls.begin(), box.calls.end(), [](const reader::Call& call) {
      return call.communicator != format::kNoCommunicator && !functions::IsMpi(call.function);
    });
  });
}

// The libraries compare nothing.
const char* OutcomeText(diagnosis::Kind kind) {
  using diagnosis::Kind;
  const bool differ =
      kind == Kind::kOrderMismatch || kind == Kind::kArgumentMismatch || kind == Kind::kPointToPointMismatch;
  return differ ? "It hangs, fails or ends with wrong data, as the library has it." : "It does not end.";
}

std::string WasText(const Job& job) {
  std::string text;
  for (std::size_t rank = 0; rank < job.was.size(); ++rank)
    text += fmt::format("{}{} was {}", text.empty() ? "" : ", ", rank, job.was[rank]);
  return text.empty() ? "" : ": " + text;
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
  const std::string title = fmt::format("{} of {}: shrunk from a recording of {} ranks by ncclwatch. See README.md.",
                                        diagnosis::Name(shrunk.fault.kind), shrunk.fault.op, shrunk.ranks_before);
  const auto text = mpi ? MpiProgramText(**program, Fates(recording), title, static_cast<int>(shrunk.job.was.size()))
                        : NcclProgramText(**program, Fates(recording), title, Stalls(shrunk.fault.kind));
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
                  fmt::arg("was", WasText(shrunk.job)));
  std::string makefile = mpi ? kMpiMakefile : kNcclMakefile;
  if (mpi) makefile.replace(makefile.find("{ranks}"), 7, fmt::format("{}", shrunk.job.was.size()));
  for (const auto& [name, content] : {std::pair(source, *text), std::pair(std::string("Makefile"), makefile),
                                      std::pair(std::string("README.md"), readme)})
    if (absl::Status written = WriteFile(directory + "/" + name, content); !written.ok()) return written;
  return source;
}

}  // namespace ncclwatch::analyzer
