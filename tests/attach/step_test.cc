// At which step a thread is, by the variables of its frames.
#include "analyzer/attach/step.h"

#include <gtest/gtest.h>

namespace ncclwatch::analyzer::attach {
namespace {

using stacks::Frame;

// Innermost first.
std::string StepOfFrames(Frame::Kind kind, std::vector<std::vector<Frame::Variable>> frames) {
  stacks::Thread thread;
  for (std::vector<Frame::Variable>& numbers : frames) {
    thread.frames.emplace_back();
    thread.frames.back().kind = kind;
    thread.frames.back().file = "/home/ann/train.py";
    thread.frames.back().numbers = std::move(numbers);
  }
  return StepOf(thread).text;
}

TEST(AttachStep, TheBestNameOfTheOutermostFrame) {
  for (const Frame::Kind kind : {Frame::Kind::kPython, Frame::Kind::kNative}) {
    EXPECT_EQ(StepOfFrames(kind, {{{"step", 3}}, {{"i", 1}, {"step", 7}}}), "step 7");
    EXPECT_EQ(StepOfFrames(kind, {{{"iter", 3}}, {{"epoch", 2}}}), "epoch 2, iter 3");
    EXPECT_EQ(StepOfFrames(kind, {{{"size", 4}, {"step", -1}}}), "");
  }
}

TEST(AttachStep, LettersCountInPythonOnly) {
  EXPECT_EQ(StepOfFrames(Frame::Kind::kPython, {{{"i", 5}}}), "i 5");
  EXPECT_EQ(StepOfFrames(Frame::Kind::kNative, {{{"i", 5}, {"n", 6}}}), "") << "n is the size of a rank's part";
}

}  // namespace
}  // namespace ncclwatch::analyzer::attach
