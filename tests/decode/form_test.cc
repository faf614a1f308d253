// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/form.h"

#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/decode/parcel.h"

#include "jpeg_maker.h"

namespace foreload {
namespace {

const step::Normalize kUsual{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};

std::shared_ptr<const Transform> chain_of(Steps steps) {
  return Transform::compile(std::move(steps)).value();
}
std::shared_ptr<const Transform> evaluation() {
  return chain_of({step::Resize{.shorter = 40}, step::CenterCrop{{32, 24}}, kUsual});
}
std::shared_ptr<const Form> form_of(std::string_view name,
                                    std::shared_ptr<const Transform> transform) {
  return make_form(name, std::move(transform)).value();
}
FormId finished_id(Steps steps) {
  return form_of("finished", chain_of(std::move(steps)))->id();
}
std::string refusal(std::shared_ptr<const Transform> transform) {
  const auto form = make_form("finished", std::move(transform));
  EXPECT_FALSE(form);
  if (form) return "";
  EXPECT_EQ(form.error().kind, ErrorKind::invalid);
  EXPECT_EQ(form.error().message.find('\n'), std::string::npos);
  return form.error().message;
}

TEST(Forms, AreATable) {
  std::set<std::string_view> names;
  for (const FormKind& kind : forms()) {
    EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
    EXPECT_FALSE(kind.help.empty()) << kind.name;
    EXPECT_TRUE(make_form(kind.name, evaluation())) << kind.name;
  }
  EXPECT_EQ(forms().front().name, "encoded");
  const auto unknown = make_form("frozen", evaluation());
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message, "there is no form 'frozen': use 'encoded' or 'finished'");
}

// Of every form of the table, for a file and what it may be in a batch.
TEST(Forms, GiveWhatTheTransformGives) {
  const auto transform = evaluation();
  const std::vector<std::byte> file = make_jpeg({});
  const SampleKey key{5, 2, 11};
  Scratch scratch;
  std::vector<std::byte> expected(transform->form().bytes());
  ASSERT_TRUE(transform->run(file, key, expected, scratch));
  std::set<FormId> ids{kEncoded};
  for (const FormKind& kind : forms().subspan(1)) {
    SCOPED_TRACE(kind.name);
    const auto form = form_of(kind.name, transform);
    EXPECT_TRUE(ids.insert(form->id()).second);
    std::vector<std::byte> kept(form->bytes(file.size()), std::byte{0xee});
    ASSERT_TRUE(form->make(file, kept, scratch));
    std::vector<std::byte> into(expected.size(), std::byte{0xdd});
    ASSERT_TRUE(form->finish(kept, key, into, scratch));
    EXPECT_EQ(into, expected);
  }
}

TEST(Forms, FilesAsTheyAreNeedNone) {
  const auto form = make_form("encoded", nullptr);
  ASSERT_TRUE(form);
  EXPECT_EQ(*form, nullptr);
  EXPECT_EQ(form_id(form->get()), kEncoded);
}

TEST(FinishedForm, IsAsLargeAsASampleInABatch) {
  const auto form = form_of("finished", evaluation());
  EXPECT_EQ(form->bytes(1), 32u * 24 * 3 * 4);
  EXPECT_EQ(form->bytes(1'000'000), form->bytes(1));
  EXPECT_FALSE(form->finish_decodes());
}

TEST(FinishedForm, ABadFileIsNotMade) {
  const auto form = form_of("finished", evaluation());
  std::vector<std::byte> kept(form->bytes(0));
  Scratch scratch;
  const auto done = form->make({}, kept, scratch);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "an empty file");
}

TEST(FinishedForm, ItsIdNamesAllThatDecidesPixels) {
  const Steps chain{step::Resize{.shorter = 40}, step::CenterCrop{{32, 24}}, kUsual};
  const FormId id = finished_id(chain);
  EXPECT_EQ(finished_id(chain), id);
  EXPECT_NE(id, kEncoded);
  std::set<FormId> ids{id};
  for (const Steps& other : {
           Steps{step::Resize{.shorter = 41}, step::CenterCrop{{32, 24}}, kUsual},
           Steps{step::Resize{.shorter = 40}, step::CenterCrop{{24, 32}}, kUsual},
           Steps{step::Resize{.shorter = 40, .interpolation = Interpolation::bicubic},
                 step::CenterCrop{{32, 24}}, kUsual},
           Steps{step::Resize{.shorter = 40}, step::CenterCrop{{32, 24}}},
           Steps{step::Resize{.shorter = 40}, step::CenterCrop{{32, 24}}, kUsual, step::ToLayout{}},
           Steps{step::Decode{.exif_orientation = true}, step::Resize{.shorter = 40},
                 step::CenterCrop{{32, 24}}, kUsual},
           Steps{step::Resize{.shorter = 40}, step::CenterCrop{{32, 24}},
                 step::Normalize{{0.485, 0.456, 0.4060001}, {0.229, 0.224, 0.225}}},
       })
    EXPECT_TRUE(ids.insert(finished_id(other)).second) << to_json(other);
  // Who decodes what is not decoded here has a version, too.
  const OtherDecoder decoder = [](auto, const auto&, auto&) -> Result<void> { return {}; };
  for (const char* name : {"Pillow 10.0.0", "Pillow 11.0.0"})
    EXPECT_TRUE(
        ids.insert(form_of("finished", chain_of(chain)->with_other_formats(decoder, name))->id())
            .second);
  EXPECT_TRUE(
      ids.insert(form_of("finished", chain_of(chain)->for_masks(0, PixelType::uint8).value())->id())
          .second);
  EXPECT_TRUE(
      ids.insert(
             form_of("finished", chain_of(chain)->for_masks(255, PixelType::uint8).value())->id())
          .second);
}

TEST(FinishedForm, IsRefusedWhereItCannotBe) {
  EXPECT_NE(
      refusal(nullptr).find("form 'finished' keeps what a transform gives, and there is none"),
      std::string::npos);
  EXPECT_NE(refusal(chain_of({step::RandomResizedCrop{{32, 32}}})).find("which is random"),
            std::string::npos);
  EXPECT_NE(refusal(chain_of({step::Resize{.shorter = 40}})).find("needs samples of one size"),
            std::string::npos);
  const auto packing = chain_of({step::CenterCrop{{96, 96}}})
                           ->packing(std::make_shared<const PackingRule>(PackingRule::kAll));
  EXPECT_NE(refusal(packing).find("use decoder='cpu'"), std::string::npos);
}

}  // namespace
}  // namespace foreload
