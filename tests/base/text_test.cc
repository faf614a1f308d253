// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/text.h"

#include <gtest/gtest.h>

namespace foreload {
namespace {

const std::vector<std::string> kOptions{"--epochs", "--batch-size", "--memory", "--num-workers",
                                        "--workers"};

TEST(Nearest, FindsWhatWasMeant) {
  EXPECT_EQ(nearest("--epoch", kOptions), "--epochs");
  EXPECT_EQ(nearest("--batchsize", kOptions), "--batch-size");
  EXPECT_EQ(nearest("--mem", kOptions), "--memory");
}

TEST(Nearest, PrefersTheOneWithFewerOtherLetters) {
  EXPECT_EQ(nearest("--worker", kOptions), "--workers");
}

TEST(Nearest, SaysNothingAboutStrangers) {
  EXPECT_EQ(nearest("--frobnicate", kOptions), "");
  EXPECT_EQ(did_you_mean("--frobnicate", kOptions), "");
  EXPECT_EQ(nearest("--images", {"--classes"}), "");  // their dashes are all that is alike
}

TEST(CheckChoice, NamesAllChoicesAndTheNearest) {
  EXPECT_TRUE(check_choice("--io", "threads", {"auto", "io_uring", "threads"}));
  const auto refused = check_choice("--io", "thread", {"auto", "io_uring", "threads"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_EQ(refused.error().message,
            "--io is 'thread': use auto, io_uring or threads; did you mean threads?");
}

TEST(PercentEncoded, LeavesLettersDigitsAndWhatIsPlain) {
  EXPECT_EQ(percent_encoded("aZ9-_.", "-"), "aZ9-%5F%2E");
  EXPECT_EQ(percent_encoded("\xC3\xA9/ ", "/"), "%C3%A9/%20");
}

TEST(FormatAge, TakesTheLargestUnitThatFits) {
  EXPECT_EQ(format_age(-5), "0 seconds");
  EXPECT_EQ(format_age(1.9), "1 second");
  EXPECT_EQ(format_age(59), "59 seconds");
  EXPECT_EQ(format_age(7200), "2 hours");
  EXPECT_EQ(format_age(3 * 86'400 + 5), "3 days");
}

}  // namespace
}  // namespace foreload
