// SPDX-License-Identifier: Apache-2.0
#include "foreload/model/profile.h"

#include <fstream>

#include <gtest/gtest.h>

#include "../temporary_folder.h"

namespace foreload {
namespace {

class ProfileTest : public ::testing::Test {
 protected:
  static MachineProfile sample() {
    MachineProfile profile;
    profile.devices.push_back({.name = "ram",
                               .kind = DeviceKind::memory,
                               .curve = Curve::flat(9e9),
                               .write_rate = 4e9,
                               .shared_write_rate = 1.3e9,
                               .measured_at = "2026-08-11T14:20:00Z"});
    profile.devices.push_back({.name = "nvme",
                               .kind = DeviceKind::disk,
                               .path = "/scratch",
                               .curve = *Curve::create({{1, 1e9}, {8, 3.3e9}}),
                               .latency = 80e-6,
                               .write_rate = 1.5e9,
                               .note = "direct I/O",
                               .measured_at = "2026-08-11T14:21:00Z"});
    profile.devices.push_back({.name = "train",
                               .kind = DeviceKind::source,
                               .path = "/data/imagenet",
                               .curve = Curve::flat(60e6),
                               .latency = 0.0055,
                               .cpu_rate = 1.1e9});
    return profile;
  }

  static std::string flaw(const std::string& json) {
    const auto profile = MachineProfile::from_json(json);
    EXPECT_FALSE(profile) << json;
    if (profile) return "";
    EXPECT_EQ(profile.error().kind, ErrorKind::invalid);
    EXPECT_EQ(profile.error().message.find('\n'), std::string::npos);
    return profile.error().message;
  }
  static std::string flaw_of_devices(const std::string& devices) {
    return flaw(R"({"foreload_profile": 1, "devices": )" + devices + "}");
  }

  const TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
  const std::filesystem::path file_ = folder_ / "machine.json";
};

TEST_F(ProfileTest, JsonComesBackTheSame) {
  const auto again = MachineProfile::from_json(sample().to_json());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, sample());
  EXPECT_EQ(*MachineProfile::from_json(MachineProfile().to_json()), MachineProfile());
}

TEST_F(ProfileTest, FileComesBackTheSameAndIsReplacedAsAWhole) {
  std::ofstream(file_) << "old";
  ASSERT_TRUE(sample().save(file_));
  const auto again = MachineProfile::load(file_);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, sample());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(ProfileTest, FindsDevicesByName) {
  const MachineProfile profile = sample();
  ASSERT_NE(profile.find("nvme"), nullptr);
  EXPECT_EQ(profile.find("nvme")->path, "/scratch");
  EXPECT_EQ(profile.find("tape"), nullptr);
}

TEST_F(ProfileTest, WriteRateAndNoteMayBeMissing) {
  const auto profile = MachineProfile::from_json(
      R"({"foreload_profile": 1, "devices": [{"name": "x", "kind": "disk", "path": "/x",
          "latency_seconds": 0, "curve": [[1, 5]]}]})");
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(profile->devices[0].write_rate, 0);
  EXPECT_EQ(profile->devices[0].note, "");
}

TEST_F(ProfileTest, NewMeasurementsReplaceOldOnesOfTheSameName) {
  MachineProfile profile = sample();
  DeviceProfile again = *profile.find("nvme");
  again.latency = 1;
  profile.put(again);
  ASSERT_EQ(profile.devices.size(), 3u);
  EXPECT_EQ(profile.devices[1], again);
  again.name = "other";
  profile.put(again);
  ASSERT_EQ(profile.devices.size(), 4u);
  EXPECT_EQ(profile.devices[3], again);
}

TEST_F(ProfileTest, NamesWhatIsWrong) {
  const std::string curve = R"("curve": [[1, 5]])";
  EXPECT_EQ(flaw("{}"), "it is not a machine profile; `foreload probe` writes one");
  EXPECT_EQ(flaw("not json"), "it is not a machine profile; `foreload probe` writes one");
  EXPECT_EQ(flaw(R"({"foreload_profile": 2, "devices": []})"),
            "format version 2 is not known, only 1; measure again with `foreload probe`");
  EXPECT_EQ(flaw(R"({"foreload_profile": 1})"), "the list \"devices\" is missing");
  EXPECT_EQ(flaw_of_devices("[3]"), "device 0 has no name");
  EXPECT_EQ(flaw_of_devices(R"([{"name": "x", "kind": "tape"}])"),
            "device 'x': \"kind\" must be memory, disk or source");
  EXPECT_EQ(flaw_of_devices(R"([{"name": "x", "kind": "disk"}])"),
            "device 'x': \"path\" is missing");
  EXPECT_EQ(flaw_of_devices(R"([{"name": "x", "kind": "memory", "latency_seconds": -1}])"),
            "device 'x': \"latency_seconds\" must be a number and not below 0");
  EXPECT_EQ(flaw_of_devices(R"([{"name": "x", "kind": "memory", "latency_seconds": 0}])"),
            "device 'x': \"curve\" is missing");
  EXPECT_EQ(
      flaw_of_devices(R"([{"name": "x", "kind": "memory", "latency_seconds": 0, "curve": []}])"),
      "device 'x': a throughput curve needs at least one point");
  EXPECT_EQ(flaw_of_devices(
                R"([{"name": "x", "kind": "memory", "latency_seconds": 0, "write_rate": "fast"}])"),
            "device 'x': \"write_rate\" must be a number and not below 0");
  EXPECT_EQ(
      flaw_of_devices(R"([{"name": "x", "kind": "memory", "latency_seconds": 0, "cpu_rate": -1}])"),
      "device 'x': \"cpu_rate\" must be a number and not below 0");
  const std::string good =
      R"({"name": "x", "kind": "memory", "latency_seconds": 0, )" + curve + "}";
  EXPECT_EQ(flaw_of_devices("[" + good + "," + good + "]"), "device 'x' is there twice");
}

TEST_F(ProfileTest, MissingFileIsOneLine) {
  const auto profile = MachineProfile::load(file_);
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().kind, ErrorKind::unreadable);
  EXPECT_EQ(profile.error().message,
            "cannot read machine profile " + file_.native() +
                ": No such file or directory. `foreload probe` writes one.");
}

TEST_F(ProfileTest, FolderIsNoProfile) {
  const auto profile = MachineProfile::load(folder_);
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().kind, ErrorKind::unreadable);
}

TEST_F(ProfileTest, BadFileIsNamed) {
  std::ofstream(file_) << "{}";
  const auto profile = MachineProfile::load(file_);
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().message,
            "cannot use machine profile " + file_.native() +
                ": it is not a machine profile; `foreload probe` writes one");
}

TEST_F(ProfileTest, UnwritablePathIsOneLine) {
  const auto result = sample().save(folder_ / "missing" / "machine.json");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::unreadable);
  EXPECT_EQ(result.error().message,
            "cannot write machine profile " + (folder_ / "missing" / "machine.json").native() +
                ": No such file or directory. Check that its folder exists, is writable and has "
                "space left.");
}

}  // namespace
}  // namespace foreload
