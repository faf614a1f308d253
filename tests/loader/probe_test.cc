// SPDX-License-Identifier: Apache-2.0
//
// The probe on real files. What is measured depends on the machine, so the tests look at the shape
// of the results, and at the arithmetic with given times.
#include "foreload/loader/probe.h"

#include <fstream>

#include <gtest/gtest.h>

#include "foreload/loader/probe_level.h"

#include "../temporary_folder.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;
using probing::Clock;
using probing::TimeWindow;
using std::chrono::milliseconds;

class ProbeTest : public testing::Test {
 protected:
  void SetUp() override { settings_.time = milliseconds(80); }

  void write_samples(int count, size_t size) const {
    fs::create_directories(root_ / "set" / "cat");
    for (int i = 0; i < count; ++i)
      std::ofstream(root_ / "set" / "cat" / (std::to_string(i) + ".jpg")) << std::string(size, 'x');
  }
  static void expect_levels(const DeviceProfile& device, const std::vector<double>& levels) {
    std::vector<double> found;
    for (const Curve::Point& point : device.curve.points()) {
      found.push_back(point.concurrency);
      EXPECT_GT(point.rate, 0);
    }
    EXPECT_EQ(found, levels);
    EXPECT_EQ(device.measured_at.size(), 20u) << device.measured_at;
  }

  const TemporaryFolder temporary_;
  const fs::path root_ = temporary_.path();
  ProbeSettings settings_;
};

TEST_F(ProbeTest, MemoryHasThreeLevelsAndRatesOfFilling) {
  const auto device = probe_memory(settings_);
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_EQ(device->name, "memory");
  EXPECT_EQ(device->kind, DeviceKind::memory);
  EXPECT_GT(device->write_rate, 0);
  EXPECT_GT(device->shared_write_rate, 0);
  expect_levels(*device, {1, 2, 4});
}

TEST_F(ProbeTest, DiskHasSixLevelsAWriteRateAndALatency) {
  const auto device = probe_disk(root_, settings_);
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_EQ(device->name, "disk " + root_.native());
  EXPECT_EQ(device->path, root_.native());
  EXPECT_EQ(device->kind, DeviceKind::disk);
  EXPECT_GT(device->write_rate, 0);
  EXPECT_GT(device->latency, 0);
  EXPECT_FALSE(device->note.empty());
  expect_levels(*device, {1, 2, 4, 8, 16, 32});
  EXPECT_TRUE(fs::is_empty(root_));
}

TEST_F(ProbeTest, NothingIsInTheFolderWhileADiskIsMeasured) {
  bool empty = true;
  settings_.progress = [&](uint64_t, uint64_t) { return empty = empty && fs::is_empty(root_); };
  ASSERT_TRUE(probe_disk(root_, settings_));
  EXPECT_TRUE(empty);
}

TEST_F(ProbeTest, SourceHasSixLevelsALatencyAndARateOfCpuTime) {
  write_samples(40, 20'000);
  const auto device = probe_source(root_ / "set", settings_);
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_EQ(device->name, "source " + (root_ / "set").native());
  EXPECT_EQ(device->kind, DeviceKind::source);
  EXPECT_GT(device->latency, 0);
  EXPECT_GT(device->cpu_rate, 0);
  EXPECT_NE(device->note.find("times"), std::string::npos) << "40 samples do not last";
  expect_levels(*device, {1, 2, 4, 8, 16, 32});
}

TEST_F(ProbeTest, SourceMayBeAFileListAndLargerThanABlock) {
  write_samples(3, 2 << 20);
  std::ofstream(root_ / "list.txt") << "set/cat/0.jpg\nset/cat/2.jpg\n";
  const auto device = probe_source(root_ / "list.txt", settings_);
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_EQ(device->path, root_.native());
}

TEST_F(ProbeTest, SampleThatIsGoneIsNamed) {
  write_samples(3, 1'000);
  settings_.index = root_ / "saved.index";
  ASSERT_TRUE(probe_source(root_ / "set", settings_));  // saves it
  // The time of the folder would tell, and it would be listed again.
  const auto time = fs::last_write_time(root_ / "set" / "cat");
  for (int i = 0; i < 3; ++i) fs::remove(root_ / "set" / "cat" / (std::to_string(i) + ".jpg"));
  fs::last_write_time(root_ / "set" / "cat", time);
  const auto device = probe_source(root_ / "set", settings_);
  ASSERT_FALSE(device);
  EXPECT_NE(device.error().message.find(".jpg"), std::string::npos) << device.error().message;
  EXPECT_EQ(device.error().message.find('\n'), std::string::npos);
}

TEST_F(ProbeTest, FolderThatIsNotThereIsNamed) {
  const auto device = probe_disk(root_ / "nowhere", settings_);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().kind, ErrorKind::unreadable);
  EXPECT_NE(device.error().message.find("nowhere"), std::string::npos) << device.error().message;
}

TEST_F(ProbeTest, ProgressCancels) {
  write_samples(3, 1'000);
  settings_.progress = [](uint64_t, uint64_t) { return false; };
  for (const auto& device : {probe_memory(settings_), probe_disk(root_, settings_),
                             probe_source(root_ / "set", settings_)}) {
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().kind, ErrorKind::cancelled);
  }
}

TEST_F(ProbeTest, PathsWithSamplesAreSources) {
  fs::create_directories(root_ / "cache" / "foreload-1" / "0");
  std::ofstream(root_ / "cache" / "foreload-1" / "0" / "x.jpg") << "x";  // what a cache holds
  std::ofstream(root_ / "cache" / "notes.txt") << "x";
  EXPECT_EQ(kind_of_path(root_ / "cache", image_extensions()), DeviceKind::disk);
  EXPECT_EQ(kind_of_path(root_ / "nowhere", image_extensions()), DeviceKind::disk);
  EXPECT_EQ(kind_of_path(root_ / "cache", {".TXT"}), DeviceKind::source);
  EXPECT_EQ(kind_of_path(root_ / "cache" / "notes.txt", image_extensions()), DeviceKind::source);
  write_samples(1, 1);
  EXPECT_EQ(kind_of_path(root_ / "set", image_extensions()), DeviceKind::source);
}

TEST_F(ProbeTest, QuickRateMakesItsFolderAndLeavesNothing) {
  EXPECT_GT(quick_disk_rate(root_ / "new"), 0);
  EXPECT_TRUE(fs::is_empty(root_ / "new"));
  std::ofstream(root_ / "file") << "x";
  EXPECT_EQ(quick_disk_rate(root_ / "file"), 0);
}

TEST(ProbeWindow, CountsTheShareOfARequestThatFallsInside) {
  const auto start = Clock::time_point(std::chrono::seconds(100));
  const auto at = [start](int ms) { return start + milliseconds(ms); };
  const TimeWindow window{at(100), at(200)};
  EXPECT_DOUBLE_EQ(window.seconds(), 0.1);
  EXPECT_DOUBLE_EQ(window.share(at(120), at(140), 1'000), 1'000);
  EXPECT_DOUBLE_EQ(window.share(at(50), at(150), 1'000), 500);
  EXPECT_DOUBLE_EQ(window.share(at(150), at(350), 1'000), 250);
  EXPECT_DOUBLE_EQ(window.share(at(0), at(400), 1'000), 250);
  EXPECT_DOUBLE_EQ(window.share(at(0), at(100), 1'000), 0);
  EXPECT_DOUBLE_EQ(window.share(at(200), at(300), 1'000), 0);
}

TEST(ProbeWindow, FailureOfOneThreadEndsAll) {
  const auto rate = probing::blocking_rate(
      4, std::chrono::seconds(60), [](unsigned thread, uint64_t number) -> Result<uint64_t> {
        if (thread == 3 && number == 10) return fail(ErrorKind::unreadable, "broken");
        return 1;
      });
  ASSERT_FALSE(rate);
  EXPECT_EQ(rate.error().message, "broken");
}

}  // namespace
}  // namespace foreload
