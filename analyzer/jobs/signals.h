// Signals of commands that follow live black boxes until the job, or somebody, ends them.
#pragma once

namespace ncclwatch::analyzer {

// From then on SIGINT and SIGTERM only make Ended() true, and a box that somebody cuts short reads as zeroes.
void CatchSignals();
bool Ended();

}  // namespace ncclwatch::analyzer
