// SPDX-License-Identifier: Apache-2.0
#include "foreload/stores/chosen_source.h"
#include "foreload/stores/file_store.h"
#include "foreload/stores/shaped.h"

#include "http_server.h"
#include "memory_source.h"
#include "source_conformance.h"
#include "test_folder.h"

namespace foreload {
namespace {

SourceKind folder_kind(const std::string& name, IoEngine engine,
                       std::optional<unsigned> open_folders = {}) {
  return {name, [engine, open_folders](const std::shared_ptr<const TestCatalog>& objects,
                                       unsigned most_in_flight, Source::Answered answered) {
            auto folder = std::make_shared<TestFolder>();
            for (uint32_t i = 0; i < objects->count(); ++i) folder->add(objects->object(i));
            auto source = open_test_folder(*folder, engine, objects, most_in_flight,
                                           std::move(answered), open_folders);
            return SourceAtWork{std::move(folder), std::move(source)};
          }};
}

// A tenth of a second of reading decides.
SourceKind chosen_kind() {
  return {"Chosen", [](const std::shared_ptr<const TestCatalog>& objects, unsigned most_in_flight,
                       const Source::Answered& answered) {
            auto folder = std::make_shared<TestFolder>();
            for (uint32_t i = 0; i < objects->count(); ++i) folder->add(objects->object(i));
            const auto make = [&](IoEngine engine) -> Candidates::Make {
              return [&, engine](Source::Answered heard) -> Result<std::unique_ptr<Source>> {
                auto source =
                    open_test_folder(*folder, engine, objects, most_in_flight, std::move(heard), 2);
                if (source) return source;
                return fail(ErrorKind::invalid, "the system does not have this engine");
              };
            };
            const auto fast_clock = [begin = std::chrono::steady_clock::now()] {
              return begin + 5 * (std::chrono::steady_clock::now() - begin);
            };
            auto source = start_chosen_source(
                {make(IoEngine::threads), make(IoEngine::io_uring), most_in_flight}, answered,
                fast_clock);
            return SourceAtWork{std::move(folder), std::move(*source)};
          }};
}

SourceKind web_kind() {
  return {
      "Web", [](const std::shared_ptr<const TestCatalog>& objects, unsigned most_in_flight,
                Source::Answered answered) {
        auto folder = std::make_shared<TestFolder>();
        for (uint32_t i = 0; i < objects->count(); ++i) folder->add(objects->object(i));
        auto server = std::make_shared<HttpServer>(folder->path());
        SourceSettings settings;
        settings.objects = objects;
        settings.most_in_flight = most_in_flight;
        auto store = *open_store(server->address());
        auto source = *store->open(std::move(settings), std::move(answered));
        return SourceAtWork{
            std::make_shared<std::pair<std::shared_ptr<TestFolder>, std::shared_ptr<HttpServer>>>(
                std::move(folder), std::move(server)),
            std::move(source)};
      }};
}

SourceKind memory_kind() {
  return {"Memory", [](const std::shared_ptr<const TestCatalog>& objects, unsigned most_in_flight,
                       Source::Answered answered) {
            return SourceAtWork{nullptr, std::make_unique<MemorySource>(objects, most_in_flight,
                                                                        std::move(answered))};
          }};
}

// Slower, but neither so slow that tests drag nor with faults.
SourceKind shaped_kind(const std::string& name, const SourceKind& inner) {
  return {name, [inner](const std::shared_ptr<const TestCatalog>& objects, unsigned most_in_flight,
                        Source::Answered answered) {
            Shape shape;
            shape.bytes_per_second = 1e9;
            shape.latency = std::chrono::microseconds(20);
            shape.most_in_flight = most_in_flight;
            std::shared_ptr<void> place;
            auto source = shape_source(
                [&](Source::Answered heard) {
                  SourceAtWork at_work = inner.make(objects, most_in_flight, std::move(heard));
                  place = std::move(at_work.place);
                  return std::move(at_work.source);
                },
                shape, std::move(answered));
            return SourceAtWork{std::move(place), std::move(source)};
          }};
}

SourceKind hanging_shape_kind() {
  return {"HangingShape", [](const std::shared_ptr<const TestCatalog>& objects,
                             unsigned most_in_flight, Source::Answered answered) {
            Shape shape;
            shape.most_in_flight = most_in_flight;
            shape.hangs = [objects](uint32_t object, unsigned) {
              return objects->object(object).hangs;
            };
            return SourceAtWork{nullptr, shape_source(
                                             [&](Source::Answered heard) {
                                               return std::make_unique<MemorySource>(
                                                   objects, most_in_flight, std::move(heard));
                                             },
                                             shape, std::move(answered))};
          }};
}

INSTANTIATE_TEST_SUITE_P(
    Sources, SourceConformance,
    testing::Values(folder_kind("Uring", IoEngine::io_uring),
                    folder_kind("Threads", IoEngine::threads),
                    folder_kind("UringByFolder", IoEngine::io_uring, 2),
                    folder_kind("ThreadsByFolder", IoEngine::threads, 2), chosen_kind(), web_kind(),
                    memory_kind(),
                    shaped_kind("ShapedUring", folder_kind("Uring", IoEngine::io_uring)),
                    shaped_kind("ShapedThreads", folder_kind("Threads", IoEngine::threads)),
                    hanging_shape_kind()),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace foreload
