// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/setting_table.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "foreload/base/bytes.h"
#include "foreload/loader/settling.h"

namespace foreload {
namespace {

// Another value than `now`, of the row's kind.
SettingValue another(const Setting& setting, const SettingValue& now) {
  switch (setting.kind) {
    case SettingKind::flag:
      return !std::get<bool>(now);
    case SettingKind::count:
      return setting.least + 7;
    case SettingKind::seed:
    case SettingKind::bytes:
      return uint64_t{7};
    case SettingKind::seconds:
    case SettingKind::milliseconds:
      return 7.5;
    case SettingKind::choice: {
      for (const std::string& choice : setting.choices)
        if (SettingValue(choice) != now) return choice;
      return std::string(setting.name == "order" ? "feistel" : "truncate");
    }
    case SettingKind::path:
      return std::string("/some/where");
    case SettingKind::extensions:
      return std::vector<std::string>{".seven"};
    case SettingKind::memory:
      return std::vector<DiskBudget>{{{}, 7, "why"}};
    case SettingKind::disks:
      return std::vector<DiskBudget>{{"/some/where", 7, "why"}};
  }
  return {};
}

TEST(SettingTable, EveryRowGivesBackWhatItWasGivenAndTouchesNoOther) {
  for (const Setting& setting : setting_table()) {
    SCOPED_TRACE(setting.name);
    LoaderSettings settings = usual_settings();
    const SettingValue value = another(setting, setting.get(settings));
    ASSERT_TRUE(setting.set(settings, value));
    EXPECT_TRUE(setting.get(settings) == value);
    for (const Setting& other : setting_table()) {
      if (other.name == setting.name) continue;
      EXPECT_TRUE(other.get(settings) == other.get(usual_settings())) << other.name;
    }
  }
}

TEST(SettingTable, EveryRowHasANameOfItsOwnAndASentence) {
  std::set<std::string_view> names;
  for (const Setting& setting : setting_table()) {
    EXPECT_TRUE(names.insert(setting.name).second) << setting.name;
    EXPECT_EQ(&find_setting(setting.name), &setting);
    EXPECT_FALSE(setting.help.empty()) << setting.name;
  }
}

TEST(SettingTable, ADefaultIsInItsRange) {
  for (const Setting& setting : setting_table()) {
    const SettingValue value = setting.get(usual_settings());
    if (const auto* number = std::get_if<uint64_t>(&value)) {
      EXPECT_GE(*number, setting.least) << setting.name;
      EXPECT_LE(*number, setting.most) << setting.name;
    }
  }
}

TEST(SettingTable, ATimeWithoutEndIsLong) {
  LoaderSettings settings;
  ASSERT_TRUE(find_setting("deadline").set(settings, 1e300));
  EXPECT_GT(settings.read_deadline, std::chrono::hours(24 * 365));
}

TEST(SettingTable, ADiskBudgetNeedsAFolderAndASize) {
  const auto disk = parse_disk_budget("--disk", "/local/nvme:2GiB");
  ASSERT_TRUE(disk);
  EXPECT_EQ(disk->folder, "/local/nvme");
  EXPECT_EQ(disk->bytes, uint64_t{2} << 30);
  EXPECT_EQ(parse_disk_budget("--disk", "/local/nvme").error().message,
            "--disk is '/local/nvme': give a folder and a size, like /local/nvme:100GiB");
}

TEST(SettingTable, ARunFileHasWhatARowSays) {
  EXPECT_EQ(recorded_json(usual_settings()),
            R"({"seed":0,"batch_size":64,"epochs":null,"rank":0,"ranks":1})");
}

TEST(Budgets, AreTheNodesUnlessTheyArePerRank) {
  LoaderSettings settings;
  settings.memory = 1000;
  settings.disks = {{"/a", 400, {}}};
  settings.ranks_per_node = 4;
  LoaderSettings each = settings;
  each.per_rank = true;
  share_budgets(settings);
  share_budgets(each);
  EXPECT_EQ(settings.memory, 250u);
  EXPECT_EQ(settings.disks[0].bytes, 100u);
  EXPECT_EQ(each.memory, 1000u);
  EXPECT_EQ(each.disks[0].bytes, 400u);
}

}  // namespace
}  // namespace foreload
