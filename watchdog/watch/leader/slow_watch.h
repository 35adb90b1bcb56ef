// What slows a job that goes on, looked for now and then: told once, and again when it changes. Of the steps of all
// ranks whoever judges them is told, as bodies of steps_code.h; of the program's own numbers each leader sees its
// node's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/finding.h"
#include "core/model/snapshot.h"
#include "core/slow/find.h"
#include "core/steps/reported_steps.h"
#include "watchdog/watch/base/context.h"
#include "watchdog/watch/base/event_file.h"
#include "watchdog/watch/node/meanwhile_run.h"
#include "watchdog/watch/node/node_processes.h"

namespace ncclwatch::watch {

class SlowWatch {
 public:
  // environment: outlives this.
  SlowWatch(const Context& context, const std::vector<std::string>* environment);

  // Steps of ranks, this node's among them.
  void Hear(std::string_view body);
  bool Due(std::int64_t now_ns) const { return now_ns >= next_ns_; }
  // The snapshot needs no calls. judges_steps: nobody else does. Looks become rarer where they take long; of many
  // thousand ranks one takes a part of a second, in which `beat` is called now and then. Stragglers of this node are
  // looked at closer before they are told.
  void Look(std::int64_t now_ns, const diagnosis::Snapshot& snapshot, const NodeProcesses& group_wait,
            bool judges_steps, const std::function<void()>& beat);
  bool HasFindings() const;  // of the last look
  // Hands on what is still to be written. At every tick.
  void Flush() { events_.Flush(); }
  // What was said of the steps since the last call, for the other nodes; none: nothing. Empty: it is over.
  std::optional<std::vector<diagnosis::Finding>> TakeSaid();
  // The hub has said it: it stands in this node's run directory (NCCLWATCH_OUT may be one for all nodes), and is not
  // said again by whoever is hub next.
  void TakeWord(const std::vector<diagnosis::Finding>& findings, const NodeProcesses& group_wait, std::int64_t now_ns);

 private:
  bool HasNews() const;  // to be said, or taken back
  // What one look found, and what was said of it: kind and culprits; empty: nothing.
  struct Subject {
    std::string seen, reported;
    int looks = 0;  // that have found `seen`, one after the other
    std::int64_t reported_ns = 0;
    bool IsNew() const { return seen != reported; }
  };

  void JudgeNumbers(std::vector<diagnosis::Finding> findings, std::int64_t now_ns);
  void LookCloser(std::int64_t now_ns, const NodeProcesses& group_wait,
                  const std::vector<diagnosis::Finding>& findings);
  void LookAtAll(const diagnosis::StepTable& table, const NodeProcesses& group_wait,
                 const std::vector<diagnosis::Finding>& findings);
  void ReadTopologyOnce();
  bool Judge(const std::vector<diagnosis::Finding>& findings, std::int64_t now_ns, Subject* subject);
  void WriteEvent(const diagnosis::Finding& finding, bool into_out);

  const Context& context_;
  EventFile events_;
  diagnosis::SlowContext context_of_job_;
  diagnosis::ReportedSteps steps_;
  MeanwhileRun meanwhile_;
  std::vector<int> looked_at_;  // stragglers that were sampled last
  std::int64_t looked_ns_ = 0;
  std::optional<std::string> looked_at_all_;  // when this was found: SignatureOf
  int looks_ = 0;
  diagnosis::LatenessSums lateness_;
  bool topology_read_ = false;
  std::int64_t next_ns_ = 0;
  Subject of_steps_;
  std::map<diagnosis::Kind, Subject> of_numbers_;  // by kinds
  std::optional<std::vector<diagnosis::Finding>> said_;
};

}  // namespace ncclwatch::watch
