// Boxes to a diagnosis: of a dead job from its boxes alone, of a live one with what can be seen of its processes now.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "analyzer/jobs/attempts.h"
#include "analyzer/jobs/site_lines.h"
#include "core/model/finding.h"
#include "core/model/snapshot.h"
#include "core/reader/box.h"
#include "core/slow/find.h"

namespace ncclwatch::analyzer {

// With what slows the job where nothing stops it. Takes the boxes: those of a thousand
// ranks are copied in longer than they are judged in.
diagnosis::Diagnosis Diagnose(reader::RunImage run, const diagnosis::SlowContext& context = {});
// The same in two steps, for who looks further at what was judged.
struct Judged {
  diagnosis::Snapshot snapshot;
  bool untimed = false;  // reader::RunImage::untimed
};
Judged ToJudge(reader::RunImage run);
diagnosis::Diagnosis Diagnose(const Judged& judged, const diagnosis::SlowContext& context = {});

// As the boxes tell it, with observations of our own where no leader lived to make them.
diagnosis::Diagnosis DiagnoseWith(reader::RunImage run, const std::vector<reader::Observation>& own);
// ... and what slowed a job that nothing stopped.
std::vector<diagnosis::Finding> SlowIn(reader::RunImage run, const std::vector<reader::Observation>& own,
                                       const diagnosis::SlowContext& context);

// ncclwatch.diagnosis/1 with what could not be read, and with the attempts of the job.
nlohmann::ordered_json DiagnosisJson(const diagnosis::Diagnosis& verdict, const std::vector<reader::Failure>& failures,
                                     const Attempts& attempts);

// With lines in place of its call sites, and without what NCCLWATCH_IGNORE lists. That file's mistakes are the
// command's to report, once.
void NameAndIgnore(std::string_view command, SiteLines* lines, diagnosis::Diagnosis* verdict);

// The file that NCCLWATCH_TOPOLOGY names. What is wrong with it is said on stderr, as the command's.
diagnosis::Topology TopologyOfTheJob(std::string_view command);

}  // namespace ncclwatch::analyzer
