// docs/DIAGNOSES.md against what findings say: every kind has its section, with its advice word for word.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "core/report/advice.h"
#include "tests/unit/diagnosis/verdicts.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Kind;

// Line breaks and runs of blanks as one blank.
std::map<std::string, std::string> Sections() {
  std::ifstream file(NCCLWATCH_DIAGNOSES);
  std::map<std::string, std::string> sections;
  std::string line, name;
  while (std::getline(file, line)) {
    if (line.starts_with("## ")) name = line.substr(3);
    std::istringstream words(line);
    for (std::string word; words >> word;) sections[name] += word + " ";
  }
  return sections;
}

std::vector<Kind> Kinds() {
  std::vector<Kind> kinds;
  for (int i = 0; Name(static_cast<Kind>(i)) != "?"; ++i) kinds.push_back(static_cast<Kind>(i));
  return kinds;
}

TEST(Advice, StandsInTheSectionOfEachKind) {
  std::map<std::string, std::string> sections = Sections();
  ASSERT_FALSE(sections.empty()) << NCCLWATCH_DIAGNOSES;
  for (const Kind kind : Kinds()) {
    const std::string name(Name(kind)), advice(diagnosis::Advice(kind));
    ASSERT_TRUE(sections.contains(name)) << name;
    ASSERT_FALSE(advice.empty()) << name;
    EXPECT_NE(sections[name].find("*For good:* " + advice + "."), std::string::npos) << name << ": " << advice;
    EXPECT_NE(sections[name].find("*Do:*"), std::string::npos) << name;
  }
}

TEST(Advice, IsTheLastStepOfEveryFinding) {
  Job job = Running(4);
  job.Call({0, 1, 3}, kWorld, AllReduce());
  const diagnosis::Diagnosis diagnosis = job.DiagnoseAt(100);
  ASSERT_FALSE(diagnosis.findings.empty());
  for (const diagnosis::Finding& finding : diagnosis.findings) {
    ASSERT_GE(finding.next_steps.size(), 2u);
    EXPECT_EQ(finding.next_steps.back(), "for good: " + std::string(diagnosis::Advice(finding.kind)));
  }
}

}  // namespace
}  // namespace ncclwatch::testing
