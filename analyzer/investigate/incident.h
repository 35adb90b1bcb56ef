// An incident as an engineer would tell it: what, when, who, from symptom to cause, what was ruled out. Pure.
#pragma once

#include <absl/time/time.h>

#include <optional>
#include <string>
#include <vector>

#include "analyzer/investigate/material.h"

namespace ncclwatch::investigate {

enum class Class { kHealthy, kHang, kFailure, kSlow, kNumbers };

// A step from the symptom towards the cause, and what shows it.
struct Link {
  std::string text;
  std::vector<std::string> evidence;
};

enum class Standing { kSupported, kRuledOut, kUntested };
struct Hypothesis {
  std::string text;
  Standing standing = Standing::kUntested;
  std::string by;  // the test that decided it, or the command that would
};

struct Moment {
  absl::Time at;
  std::string text;
};

struct Incident {
  Class kind = Class::kHealthy;
  std::string title, summary, certainty;
  std::vector<Moment> timeline;
  std::vector<std::string> triage, localization;  // sentences
  std::vector<Hypothesis> hypotheses;
  std::vector<Link> chain;
  std::vector<std::string> look_further;  // where measuring ends: commands
  std::vector<std::string> now, for_good;
  std::vector<std::string> cost;  // sentences
  std::vector<std::string> not_looked_at;
  analyzer::Attempts attempts;
};

Incident Investigate(const Material& material);

const char* Name(Class kind);
const char* Name(Standing standing);
// Parts of the above, each in a file of its own.
std::vector<Hypothesis> HypothesesOf(const Material& material, Class kind);
std::vector<Link> ChainOf(const Material& material);
std::vector<std::string> FurtherOf(const Material& material, Class kind);
std::vector<std::string> CostOf(const Material& material, Class kind);

// The finding that is the root cause; null: none.
const diagnosis::Finding* RootFinding(const Material& material);
const analyzer::TriageFinding* FirstCause(const Material& material);

}  // namespace ncclwatch::investigate
