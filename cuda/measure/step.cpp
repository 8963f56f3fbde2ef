// Whole decode steps, and what a launch and a byte of them cost.
#include <fstream>
#include <optional>

#include "base/error.h"
#include "cuda/measure/model_step.h"
#include "cuda/measure/sections.h"
#include "engine/estimate.h"

namespace llm::measure {
namespace {

constexpr StepVariant kVariants[] = {
    {"plain", false, false}, {"overlap", true, false}, {"overlap+prefetch", true, true}};
/// What the program does unless it is told otherwise.
constexpr const char* kDefaultVariant = "overlap";

/// One step as the prediction sees it.
struct Point {
  double bytes = 0;
  double launches = 0;
  double us = 0;
};

struct Fit {
  double bandwidth_gbs = 0;
  double phase_us = 0;
};

/// The least squares of the relative errors of us = bytes / bandwidth + launches * phase; nothing
/// where the points don't tell both.
std::optional<Fit> fit(const std::vector<Point>& points) {
  double bb = 0, bl = 0, ll = 0, b1 = 0, l1 = 0;
  for (const Point& p : points) {
    const double b = p.bytes / p.us;
    const double l = p.launches / p.us;
    bb += b * b;
    bl += b * l;
    ll += l * l;
    b1 += b;
    l1 += l;
  }
  const double determinant = bb * ll - bl * bl;
  if (!(determinant > 1e-9 * bb * ll)) return std::nullopt;
  const double us_per_byte = (b1 * ll - l1 * bl) / determinant;
  const double phase_us = (l1 * bb - b1 * bl) / determinant;
  if (us_per_byte <= 0 || phase_us <= 0) return std::nullopt;
  return Fit{1e-3 / us_per_byte, phase_us};
}

void write_constants(const std::string& csv_path, const Fit& fit, size_t points) {
  const std::string path = csv_path.substr(0, csv_path.rfind(".csv")) + "_constants.csv";
  std::ofstream file(path);
  file << fmt::format(
      "# least squares over {} decode steps measured by llm_gpu_measure\nname,value\n"
      "bandwidth_gbs,{:.1f}\nphase_us,{:.3f}\n",
      points, fit.bandwidth_gbs, fit.phase_us);
  if (!file.flush()) fail("{}: can't be written", path);
}

void report_fit(Lab& lab, const StepVariant& variant, const std::vector<Point>& points) {
  const std::optional<Fit> fitted = fit(points);
  if (!fitted) {
    lab.note(fmt::format("fit, {}: {} steps don't tell bandwidth and launches apart", variant.name,
                         points.size()));
    return;
  }
  lab.note(fmt::format("fit, {}: {} steps: us = bytes / {:.0f} GB/s + launches x {:.3f} us",
                       variant.name, points.size(), fitted->bandwidth_gbs, fitted->phase_us));
  if (variant.name == std::string_view(kDefaultVariant)) {
    write_constants(lab.csv_path(), *fitted, points.size());
  }
}

}  // namespace

void measure_step(Lab& lab) {
  std::vector<Point> points[std::size(kVariants)];
  for (const char* name : {"qwen3-0.6b", "qwen3-4b", "qwen3-8b"}) {
    const ModelConfig config = config_of(name, lab.small());
    for (const int context : lab.small() ? std::vector<int>{1, 40} : std::vector{1, 1024, 8192}) {
      const std::string parameters = fmt::format("context={} batch=1", context);
      if (!lab.has_room(ModelStep::device_bytes(config, 1, context),
                        fmt::format("{} {}", name, parameters))) {
        continue;
      }
      const StepCount count = estimate_decode(config, 1, context, DType::kBF16).step;
      ModelStep step(lab, config, 1, context);
      for (size_t i = 0; i < std::size(kVariants); ++i) {
        const Times times = lab.time_graph(
            {name, fmt::format("{} {}", parameters, kVariants[i].name), count.bytes(), Unit::kGbs},
            1, [&](int) { step.queue(kVariants[i], lab.stream()); });
        points[i].push_back(
            {count.bytes(), static_cast<double>(count.launches.value()), times.median_us});
      }
    }
  }
  for (size_t i = 0; i < std::size(kVariants); ++i) report_fit(lab, kVariants[i], points[i]);
}

}  // namespace llm::measure
