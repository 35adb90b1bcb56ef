// Single steps by tables that say one thing each.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "analyzer/stacks/unwind/processor.h"
#include "analyzer/stacks/unwind/step.h"
#include "tests/stacks/table_image.h"

#if defined(__x86_64__)  // the register numbers in the programs are its

namespace ncclwatch::stacks {
namespace {

constexpr std::uint64_t kBias = 0x7f0000000000, kStackAt = 0x7ffe00001000;
constexpr unsigned kRbx = 3, kRbp = 6, kRsp = 7, kR12 = 12;

class Words : public Reader {
 public:
  bool Read(std::uint64_t address, void* to, std::size_t bytes) override {
    const auto word = words.find(address);
    if (word == words.end() || bytes != sizeof(word->second)) return false;
    std::memcpy(to, &word->second, bytes);
    return true;
  }
  std::map<std::uint64_t, std::uint64_t> words;
};

class Steps : public ::testing::Test {
 protected:
  // def_cfa rsp 8; offset rip -8: where a function begins.
  const std::vector<std::uint8_t> begin_ = {0x0c, 0x07, 0x08, 0x90, 0x01};

  Steps() {
    registers_.pc = kBias + testing::kFunction + 0x10;
    registers_.Set(kRsp, kStackAt);
    stack_.words[kStackAt] = 0x401234;
  }
  void Table(const std::vector<std::uint8_t>& own, const char* letters = "zR") {
    module_ = {"", "", kBias, kBias + (16 << 20), kBias, testing::FileOf(testing::TableBytes(begin_, own, letters))};
    ASSERT_TRUE(module_.file);
  }
  Place Here(bool exact = true) { return {registers_, exact, &module_, &stack_}; }
  Step Go() { return Stepper().ToCaller(Here()); }

  Registers registers_;
  Module module_;
  Words stack_;
};

TEST_F(Steps, ToTheCaller) {
  registers_.Set(kR12, 12);
  registers_.Set(0, 5);
  Table({});
  const Step step = Go();
  ASSERT_EQ(step.result, Step::Result::kCaller);
  EXPECT_EQ(step.caller.pc, 0x401234u);
  EXPECT_EQ(step.caller.Get(kRsp), kStackAt + 8);
  EXPECT_EQ(step.caller.Get(kR12), 12u) << "what nothing is said of is as it was";
  EXPECT_FALSE(step.caller.Get(kRbx)) << "and what was not known is not";
  EXPECT_FALSE(step.caller.Get(0)) << "nor what a function need not give back";
}

TEST_F(Steps, WhatTheCalleeSavedIsReadBack) {
  stack_.words[kStackAt - 8] = 0xb1;
  Table({0x86, 0x02});  // offset rbp -16
  const Step step = Go();
  ASSERT_EQ(step.result, Step::Result::kCaller);
  EXPECT_EQ(step.caller.Get(kRbp), 0xb1u);
}

TEST_F(Steps, OfARowTheOneOfThisAddress) {
  stack_.words[kStackAt + 8] = 0x401235;
  Table({0x50, 0x0e, 0x10, 0x41, 0x0e, 0x18});  // after 16 bytes: def_cfa_offset 16; after one more 24
  EXPECT_EQ(Stepper().ToCaller(Here(true)).caller.pc, 0x401235u);
  EXPECT_EQ(Stepper().ToCaller(Here(false)).caller.pc, 0x401234u) << "the call lies before the address";
}

TEST_F(Steps, AnUnknownRegisterIsNamed) {
  Table({0x0d, 0x06});  // def_cfa_register rbp
  const Step step = Go();
  ASSERT_EQ(step.result, Step::Result::kUnknown);
  EXPECT_EQ(step.missing, kRbp);
  const auto shape = Stepper().ShapeAt(Here(), kRbp);
  ASSERT_TRUE(shape);
  EXPECT_EQ(shape->function, kBias + testing::kFunction);
  EXPECT_EQ(shape->frame_offset, 8);
  EXPECT_EQ(shape->return_offset, -8);
  registers_.Set(kRbp, kStackAt);
  EXPECT_EQ(Go().result, Step::Result::kCaller);
}

TEST_F(Steps, AnUnknownRegisterInAnExpression) {
  Table({0x0f, 0x03, 0x76, 0x78, 0x06});  // def_cfa_expression breg6 -8, deref: a stack that was aligned anew
  ASSERT_EQ(Go().missing, kRbp);
  const auto shape = Stepper().ShapeAt(Here(), kRbp);
  ASSERT_TRUE(shape);
  EXPECT_FALSE(shape->frame_offset);
  EXPECT_EQ(shape->return_offset, -8);
  registers_.Set(kRbp, kStackAt + 64);
  stack_.words[kStackAt + 56] = kStackAt + 8;
  const Step step = Go();
  ASSERT_EQ(step.result, Step::Result::kCaller);
  EXPECT_EQ(step.caller.pc, 0x401234u);
}

TEST_F(Steps, TwoUnknownRegistersHaveNoShape) {
  Table({0x0f, 0x05, 0x76, 0x00, 0x73, 0x00, 0x22});  // breg6 0, breg3 0, plus
  ASSERT_EQ(Go().missing, kRbp);
  EXPECT_FALSE(Stepper().ShapeAt(Here(), kRbp));
}

TEST_F(Steps, TheOutermostHasNoReturnAddress) {
  Table({0x07, 0x10});  // undefined rip
  EXPECT_EQ(Go().result, Step::Result::kOutermost);
  stack_.words[kStackAt] = 0;
  Table({});
  EXPECT_EQ(Go().result, Step::Result::kOutermost);
}

TEST_F(Steps, AFramePointerThatIsLostEndsNothing) {
  Table({0x07, 0x06});  // undefined rbp
  const Step step = Go();
  ASSERT_EQ(step.result, Step::Result::kCaller);
  EXPECT_EQ(step.caller.pc, 0x401234u);
  EXPECT_FALSE(step.caller.Get(kRbp));
}

TEST_F(Steps, OutOfASignalsFrameAllIsKnown) {
  const std::uint64_t saved = kStackAt + 0x100;
  stack_.words[saved] = 0x77;
  Table({0x10, 0x00, 0x03, 0x77, 0x80, 0x02}, "zRS");  // expression rax: breg7 256
  const Step step = Go();
  ASSERT_EQ(step.result, Step::Result::kCaller);
  EXPECT_TRUE(step.signal_frame);
  EXPECT_EQ(step.caller.Get(0), 0x77u);
}

TEST_F(Steps, TheStackIsNotThere) {
  stack_.words.clear();
  Table({});
  EXPECT_EQ(Go().result, Step::Result::kUnreadable);
}

TEST_F(Steps, NoGuessWithoutATable) {
  registers_.Set(kRbp, kStackAt + 16);
  stack_.words[kStackAt + 16] = kStackAt + 32;
  stack_.words[kStackAt + 24] = 0x401236;
  Table({0x14, 0x06, 0x02});  // val_offset, which libunwind does not know
  EXPECT_EQ(Go().result, Step::Result::kNoTable);
  Table({});
  registers_.pc = kBias + testing::kFunction + testing::kFunctionBytes;
  EXPECT_EQ(Go().result, Step::Result::kNoTable);
  registers_.pc = 0x1000;
  EXPECT_EQ(Go().result, Step::Result::kNoTable);
}

// With libunwind 1.6.2 the first ends by SIGBUS, the second by SIGFPE.
TEST_F(Steps, ProgramsThatLibunwindDoesNotSurvive) {
  Table({0x09, 0x06, 0xff, 0xff, 0xff, 0xff, 0x7f});  // register: rbp is in one that there is not
  EXPECT_EQ(Go().result, Step::Result::kNoTable);
  // def_cfa_expression: the lowest number, -1, div
  Table({0x0f, 0x0c, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x09, 0xff, 0x1b});
  EXPECT_EQ(Go().result, Step::Result::kNoTable);
  Table({0x0f, 0x03, 0x2f, 0xfd, 0xff});  // a jump to itself
  EXPECT_EQ(Go().result, Step::Result::kNoTable);
}

// Damaged ones say nothing rather than crash.
TEST_F(Steps, AnyByteOfTheFileMayBeAnyOther) {
  const std::vector<std::uint8_t> own = {0x41, 0x0e, 0x10, 0x86, 0x02, 0x0a, 0x41, 0x0f, 0x03, 0x77, 0x08, 0x06,
                                         0x0b, 0x09, 0x03, 0x0c, 0x16, 0x0d, 0x02, 0x77, 0x08, 0x2e, 0x08};
  const std::vector<std::uint8_t> whole = testing::TableBytes(begin_, own, "zRS");
  stack_.words[kStackAt + 8] = 0x401235;
  std::size_t sane = 0, all = 0;
  for (std::size_t at = 0; at + 128 < whole.size(); ++at) {
    for (int value = 0; value < 256; ++value, ++all) {
      std::vector<std::uint8_t> damaged = whole;
      damaged[at] = static_cast<std::uint8_t>(value);
      module_ = {"", "", kBias, kBias + (16 << 20), kBias, testing::FileOf(std::move(damaged))};
      sane += Go().result == Step::Result::kCaller;
    }
  }
  EXPECT_GT(sane, all / 4);
  EXPECT_LT(sane, all);
}

TEST_F(Steps, WhatWasLearntServesTheNextThread) {
  stack_.words[kStackAt + 0x108] = 0x401235;
  Table({0x0e, 0x90, 0x02});  // def_cfa_offset 272
  Stepper stepper;
  ASSERT_EQ(stepper.ToCaller(Here()).caller.pc, 0x401235u);
  registers_.Set(kRsp, kStackAt - 0x108);
  EXPECT_EQ(stepper.ToCaller(Here()).caller.pc, 0x401234u);
  EXPECT_EQ(stepper.ToCaller(Here()).caller.Get(kRsp), kStackAt + 8);
}

}  // namespace
}  // namespace ncclwatch::stacks

#endif
