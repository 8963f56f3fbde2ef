# make            build/llm          make chat     the same, then a chat with the built-in model
# make test       build, run every test
# make lint       house rules        make format   clang-format in place
# make asan       tests with address and undefined-behaviour checks
# make race       kernels' tests with every unordered pair of accesses reported (g++)
# make gates      what nvcc made of the kernels: instructions, order of loads, budgets
# make ptx        nvcc's own PTX of every kernel, interpreted, against numpy (needs nvcc)
# make mutants    faults put into the kernels, which the checks above must notice: ten of them
# make fuzz       hostile inputs for every reader, FUZZ_SECONDS=60 each (needs clang)
# make dist       build/llm-VERSION-linux-ARCH.tar.gz, which runs from any folder
# make install PREFIX=/usr/local     make clean    make help
#
# CXX=clang++ picks the compiler, CUDA=0|1|auto the GPU part, CUDA_ARCHS="90a" its architectures
# (default: all that nvcc knows), BUILD=dir the output folder, V=1 shows each command.

PREFIX ?= /usr/local
BUILD ?= build
CUDA ?= auto
# Set by `make asan` and `make fuzz`; goes to compiler and linker.
SANITIZE ?=
FUZZ_SECONDS ?= 60

ARCH := $(shell $(CXX) -dumpmachine 2>/dev/null | cut -d- -f1)
# A tag's name where there is one, else the next release's number with the commit.
VERSION := $(shell git describe --tags --dirty 2>/dev/null || \
  echo 0.1.0-dev$$(git describe --always --dirty 2>/dev/null | sed 's/^/+/'))

# ---- CUDA: the stub unless nvcc 12 or newer is there; tests run the kernels on the CPU with its
# headers ----
NVCC := $(shell command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(NVCC))
CUDA_HEADERS := $(if $(filter-out 0,$(CUDA)),$(shell grep -lE 'define CUDART_VERSION +1[2-9]' \
  $(CUDA_HOME)/include/cuda_runtime_api.h 2>/dev/null))
CUDA_INCLUDE := $(patsubst %/,%,$(dir $(CUDA_HEADERS)))
ifeq ($(CUDA),auto)
WITH_CUDA := $(if $(NVCC),$(if $(CUDA_HEADERS),1,0),0)
else
WITH_CUDA := $(CUDA)
endif
ifeq ($(filter 0 1,$(WITH_CUDA)),)
$(error CUDA=$(CUDA): expected auto, 0 or 1)
endif
ifeq ($(WITH_CUDA)$(NVCC),1)
$(error CUDA=1, but there is no nvcc in PATH or /usr/local/cuda/bin: install the CUDA toolkit, or use CUDA=0)
endif
ifeq ($(WITH_CUDA)$(CUDA_HEADERS),1)
$(error CUDA=1, but $(NVCC) is older than CUDA 12, or has no headers: install a newer toolkit, or use CUDA=0)
endif
# Those that this nvcc knows: the newest came with 12.8.
ifeq ($(WITH_CUDA),1)
KNOWN_ARCHS := $(patsubst compute_%,%,$(shell $(NVCC) --list-gpu-arch))
unknown_archs = $(strip $(foreach a,$1,$(if $(filter $(a:%a=%),$(KNOWN_ARCHS)),,$a)))
ALL_ARCHS := 80 86 89 90a 100a 120a
CUDA_ARCHS ?= $(filter-out $(call unknown_archs,$(ALL_ARCHS)),$(ALL_ARCHS))
ifneq ($(call unknown_archs,$(CUDA_ARCHS)),)
$(error CUDA_ARCHS: $(NVCC) doesn't know $(call unknown_archs,$(CUDA_ARCHS)); it knows $(KNOWN_ARCHS))
endif
endif

# ---- Flags ----
# Baseline: any x86-64-v2 CPU; kernels for more are chosen at run time. No contraction into fused
# multiply-adds: results must not depend on the compiler's choice.
BASE_FLAGS := $(if $(filter x86_64,$(ARCH)),-march=x86-64-v2)
CXXFLAGS ?= -O2 -g1
# g++ 13 sees a copy out of bounds in fmt 9's own big integers (Ubuntu 24.04).
WARNINGS := -Wall -Wextra $(if $(filter 13 13.%,$(shell $(CXX) -dumpversion)),-Wno-array-bounds)
ALL_CXXFLAGS = -std=c++20 $(BASE_FLAGS) $(CXXFLAGS) -ffp-contract=off -fno-math-errno -pthread \
  $(WARNINGS) -DFMT_HEADER_ONLY -Isrc -MMD -MP $(SANITIZE)
# Line editing, linked in with what it needs, so that the program runs where it isn't installed.
EDIT_ARCHIVES := $(foreach name,edit tinfo bsd md,-l:lib$(name).a)
LDLIBS += $(if $(findstring /,$(shell $(CXX) -print-file-name=libmd.a)),$(EDIT_ARCHIVES),-ledit)
# V=1 shows the commands.
Q := $(if $(V),,@)
LINK = $(Q)$(if $(V),,echo "LINK $@" &&) $(CXX) -pthread $(LDFLAGS) $(SANITIZE) -o $@ $^ $(LDLIBS)
TEST_FLAGS := -Itests -DDOCTEST_CONFIG_SUPER_FAST_ASSERTS

# Kernels of one instruction set, by the end of the file's name.
AVX2_FLAGS := -mavx2 -mfma -mf16c
AVX512_FLAGS := $(AVX2_FLAGS) -mavx512f -mavx512bw -mavx512dq -mavx512vl
# g++ 12 warns about its own AVX-512 header (GCC bug 105593).
AVX512_FLAGS += $(if $(findstring clang,$(CXX)),,-Wno-uninitialized -Wno-maybe-uninitialized)
%_avx2.o: ISA_FLAGS = $(AVX2_FLAGS)
%_avx512.o: ISA_FLAGS = $(AVX512_FLAGS)
%_avx512bf16.o: ISA_FLAGS = $(AVX512_FLAGS) -mavx512bf16
# -lineinfo: profilers and compute-sanitizer name lines.
NVCC_SOURCE_FLAGS = -std=c++20 -O3 -lineinfo -I. -Isrc -ccbin $(CXX)
NVCC_FLAGS = $(NVCC_SOURCE_FLAGS) -MMD -MP -Xfatbin -compress-all \
  -Xptxas -v,-warn-spills,-warn-lmem-usage,-warn-double-usage \
  $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) $(CUDA_NEWER)
# For GPUs between and after those: compiled by their driver.
CUDA_NEWER = $(if $(filter 90a,$(CUDA_ARCHS)),$(if $(word 2,$(CUDA_ARCHS)),-gencode \
  arch=compute_90$(comma)code=compute_90))
comma := ,
space := $(subst ,, )
%/cuda/cuda_system.o: ALL_CXXFLAGS += \
  -DLLM_CUDA_ARCHS='"$(subst $(space),$(comma) ,$(strip $(CUDA_ARCHS:%=sm_%)))"'
# Kernels read the same bytes as different types.
EMU_FLAGS := -DLLM_CUDA_EMU -fno-strict-aliasing -Wno-unknown-pragmas -I. -isystem $(CUDA_INCLUDE)
KERNEL_FLAGS = $(if $(findstring src/backend/,$@),-O3)

# ---- Files ----
SOURCES := $(wildcard src/*.cpp src/*/*.cpp src/*/*/*.cpp)
ifneq ($(ARCH),x86_64)
SOURCES := $(filter-out %_avx2.cpp %_avx512.cpp %_avx512bf16.cpp,$(SOURCES))
endif
TEST_SOURCES := $(wildcard tests/*.cpp)
OBJECTS := $(SOURCES:%.cpp=$(BUILD)/%.o)
LIB_OBJECTS := $(filter-out $(BUILD)/src/main.o,$(OBJECTS))
TEST_OBJECTS := $(TEST_SOURCES:%.cpp=$(BUILD)/%.o)
emu_objects = $(patsubst %,$(BUILD)/emu/%.o,$(basename $(wildcard $1)))
ifneq ($(CUDA_INCLUDE),)
# The emulator has a cuBLASLt of its own.
EMU_OBJECTS := $(filter-out %/cublaslt_api.o,$(call emu_objects,cuda/*.cu cuda/*.cpp cuda/emu/*.cpp))
EMU_TEST_OBJECTS := $(call emu_objects,tests/cuda/*.cu tests/cuda/*.cpp)
EMU_LDLIBS := -lboost_context
EMU_BINARY := $(BUILD)/llm_emu
EMU_MEASURE := $(BUILD)/llm_measure_emu
EMU_MEASURE_OBJECTS := $(call emu_objects,cuda/measure/*.cu cuda/measure/*.cpp)
# Kernels and their tests once more, calling the race detector at each access.
RACE_KERNELS := $(call emu_objects,cuda/*.cu) $(EMU_TEST_OBJECTS)
RACE_OBJECTS := $(patsubst $(BUILD)/emu/%,$(BUILD)/race/%,$(RACE_KERNELS) \
  $(call emu_objects,tests/cuda/race/*.cpp)) $(call emu_objects,cuda/emu/race/*.cpp)
else
TEST_OBJECTS += $(BUILD)/tests/cuda/absent/cuda_absent_test.o
endif
NO_CUDA := $(BUILD)/src/backend/no_cuda.o
# With the emulated backend instead of the stub.
EMU_LIB_OBJECTS := $(if $(EMU_OBJECTS),$(filter-out $(NO_CUDA),$(LIB_OBJECTS)),$(LIB_OBJECTS)) \
  $(EMU_OBJECTS)
MEASURE_OBJECTS := $(patsubst %,$(BUILD)/%.o,$(basename $(wildcard cuda/measure/*.cu cuda/measure/*.cpp)))
# The program: with the GPU part where there is nvcc.
ifeq ($(WITH_CUDA),1)
CUDA_OBJECTS := $(patsubst %,$(BUILD)/%.o,$(basename $(wildcard cuda/*.cu cuda/*.cpp)))
CUDA_LDLIBS := -L$(CUDA_HOME)/lib64 -lcudart_static -ldl -lrt
LLM_OBJECTS := $(filter-out $(NO_CUDA),$(OBJECTS)) $(CUDA_OBJECTS)
else
LLM_OBJECTS := $(OBJECTS)
endif

.DELETE_ON_ERROR:
.PHONY: all setup chat test lint format asan race gates ptx mutants fuzz fuzz-targets dist install
.PHONY: clean help objects
# A second make, since setup may just have installed the compiler.
all: setup
	@$(MAKE) --no-print-directory -j$$(nproc) $(BUILD)/llm

# For scripts/lint.sh.
objects: $(OBJECTS) $(TEST_OBJECTS) $(EMU_OBJECTS) $(EMU_TEST_OBJECTS) \
  $(EMU_MEASURE_OBJECTS) $(filter $(BUILD)/emu/%,$(RACE_OBJECTS))

$(BUILD)/llm: LDLIBS += $(CUDA_LDLIBS)
$(BUILD)/llm: $(LLM_OBJECTS)
	$(LINK)

# The tests of kernels and models on a real GPU (scripts/gpu_check.sh). What looks into the emulator
# stays out.
GPU_TEST_OBJECTS := $(patsubst %.cpp,$(BUILD)/gpu/%.o,$(filter-out $(addprefix tests/cuda/,emu_% \
  proof_% schedules% cuda_errors_% cuda_cli_%),$(wildcard tests/cuda/*.cpp)))
$(BUILD)/llm_gpu_tests: LDLIBS += $(CUDA_LDLIBS)
$(BUILD)/llm_gpu_tests: $(filter-out $(BUILD)/src/main.o,$(LLM_OBJECTS)) $(TEST_OBJECTS) $(GPU_TEST_OBJECTS)
	$(LINK)

# Measurements on a real GPU (scripts/gpu_check.sh), and their rehearsal.
$(BUILD)/llm_gpu_measure: LDLIBS += $(CUDA_LDLIBS)
$(BUILD)/llm_gpu_measure: $(filter-out $(BUILD)/src/main.o,$(LLM_OBJECTS)) $(MEASURE_OBJECTS)
	$(LINK)
$(BUILD)/llm_measure_emu: LDLIBS += $(EMU_LDLIBS)
$(BUILD)/llm_measure_emu: $(EMU_LIB_OBJECTS) $(EMU_MEASURE_OBJECTS)
	$(LINK)

# The program on an emulated GPU: slow, for tests and rehearsals.
$(BUILD)/llm_emu: LDLIBS += $(EMU_LDLIBS)
$(BUILD)/llm_emu: $(EMU_LIB_OBJECTS) $(BUILD)/src/main.o
	$(LINK)

$(BUILD)/llm_tests: LDLIBS += $(EMU_LDLIBS)
$(BUILD)/llm_tests: $(EMU_LIB_OBJECTS) $(TEST_OBJECTS) $(EMU_TEST_OBJECTS)
	$(LINK)

$(BUILD)/race_tests: LDLIBS += $(EMU_LDLIBS)
$(BUILD)/race_tests: $(filter-out $(RACE_KERNELS) %/observer_none.o,$(EMU_LIB_OBJECTS)) \
  $(filter-out %_test.o,$(TEST_OBJECTS)) $(RACE_OBJECTS)
	$(LINK)

# For scripts/compare/tokenizer.sh.
TIMING := $(BUILD)/scripts/compare/tokenizer_speed
$(TIMING): $(TIMING).o $(LIB_OBJECTS)
	$(LINK)

$(BUILD)/%.o: %.cpp Makefile
	@mkdir -p $(@D)
	$(Q)$(if $(V),,echo "CXX $<" &&) $(CXX) $(ALL_CXXFLAGS) $(KERNEL_FLAGS) $(ISA_FLAGS) -c -o $@ $<

$(TEST_OBJECTS) $(EMU_TEST_OBJECTS) $(RACE_OBJECTS): ALL_CXXFLAGS += $(TEST_FLAGS)

$(CUDA_OBJECTS) $(MEASURE_OBJECTS) $(GPU_TEST_OBJECTS): ALL_CXXFLAGS += -I. -isystem $(CUDA_INCLUDE)
$(GPU_TEST_OBJECTS): ALL_CXXFLAGS += $(TEST_FLAGS)
$(BUILD)/gpu/%.o: %.cpp Makefile
	@mkdir -p $(@D)
	$(Q)$(if $(V),,echo "CXX $<" &&) $(CXX) $(ALL_CXXFLAGS) -c -o $@ $<
$(CUDA_OBJECTS) $(MEASURE_OBJECTS): $(BUILD)/cuda.stamp
$(BUILD)/cuda.stamp: force
	@mkdir -p $(@D)
	@echo '$(CUDA_ARCHS)' | cmp -s - $@ || echo '$(CUDA_ARCHS)' > $@
$(BUILD)/cuda/%.o: cuda/%.cu Makefile
	@mkdir -p $(@D)
	$(Q)$(if $(V),,echo "NVCC $<" &&) $(NVCC) $(NVCC_FLAGS) -c -o $@ $< 2>$(@:.o=.ptxas) \
	  || { cat $(@:.o=.ptxas); false; }
	@! grep -E 'warning' $(@:.o=.ptxas)

compile_emu = $(Q)$(if $(V),,echo "EMU $<" &&) mkdir -p $(@D) && \
  $(CXX) -x c++ $(ALL_CXXFLAGS) $(EMU_FLAGS) $(RACE_FLAGS) -c -o $@ $<
$(BUILD)/emu/%.o: %.cu Makefile
	$(compile_emu)
$(BUILD)/emu/%.o: %.cpp Makefile
	$(compile_emu)
# clang 14 hides 16-byte copies from the detector.
$(BUILD)/race/%.o: override CXX := g++
$(BUILD)/race/%.o: RACE_FLAGS := -fsanitize=thread -fdebug-prefix-map=$(CURDIR)=.
$(BUILD)/race/%.o: %.cu Makefile
	$(compile_emu)
$(BUILD)/race/%.o: %.cpp Makefile
	$(compile_emu)

# Files that are part of the program (src/base/embedded.cpp).
EMBEDDED := models.txt scripts/download_model.sh $(wildcard models/*/*.json models/*/*.safetensors)
$(BUILD)/src/base/embedded.o: $(EMBEDDED)

# What `llm --version` says of the build. The stamp changes only when that does.
BUILD_INFO := -DLLM_VERSION='"$(VERSION)"'
%/src/cli/version.o: ALL_CXXFLAGS += $(BUILD_INFO)
$(BUILD)/src/cli/version.o: $(BUILD)/version.stamp
$(BUILD)/version.stamp: force
	@mkdir -p $(@D)
	@echo '$(VERSION)' | cmp -s - $@ || echo '$(VERSION)' > $@
.PHONY: force

# ---- Commands ----
setup:
	@scripts/setup.sh

chat: all
	@$(BUILD)/llm chat

test: setup
	@$(MAKE) --no-print-directory -j$$(nproc) $(BUILD)/llm $(BUILD)/llm_tests $(EMU_BINARY) $(EMU_MEASURE)
	@LLM_BINARY=$(BUILD)/llm LLM_EMU_BINARY=$(EMU_BINARY) $(BUILD)/llm_tests

lint: setup
	@BUILD=$(BUILD) scripts/lint.sh

format:
	clang-format -i $$(git ls-files '*.cpp' '*.h' '*.cu' '*.cuh')

asan:
	$(MAKE) BUILD=$(BUILD)/asan WITH_CUDA=0 CXXFLAGS="-O1 -g1" \
	  SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer" test

# Long, and of nothing that other tests don't show the detector.
NOT_RACED := *large vocabulary*,*change no bit*,*more slices than*,*flat rows*,*outgrows its graph*
race: setup
	@$(MAKE) --no-print-directory -j$$(nproc) $(BUILD)/race_tests
	@$(BUILD)/race_tests -sf="tests/cuda/*" -sfe="*cuda_cli_test*,*cuda_errors_test*" -tce="*--invariant*,$(NOT_RACED)"

KERNEL_OBJECTS := $(if $(CUDA_OBJECTS),$(patsubst %.cu,$(BUILD)/%.o,$(wildcard cuda/*.cu)))
gates: $(KERNEL_OBJECTS)
	@$(if $^,scripts/sass_gates.py --archs "$(CUDA_ARCHS)" --venv $(BUILD)/venv --self-test $^,\
	  echo "gates: skipped: no nvcc")

# Architectures; those that run without the two files of attention, which take longest.
PTX_ARCHS ?= 80 90a
PTX_PARTLY ?= 100a
PTX_VENV := $(BUILD)/venv/bin/python3
ptx:
	$(if $(NVCC),,$(error make ptx: there is no nvcc in PATH or /usr/local/cuda/bin))
	@python=python3; has_numpy() { "$$python" -c "import numpy" 2>/dev/null; }; \
	has_numpy || python=$(PTX_VENV); \
	has_numpy || { python3 -m venv $(BUILD)/venv && $(PTX_VENV) -m pip install -q numpy; } || exit 1; \
	OPENBLAS_NUM_THREADS=1 "$$python" -B tests/ptx/test_kernels.py --nvcc $(NVCC) \
	  --flags="$(NVCC_SOURCE_FLAGS)" --build $(BUILD)/ptx --archs $(PTX_ARCHS) --partly $(PTX_PARTLY)
# All of them, by hand: scripts/mutate_kernels.py --all --results tests/cuda/mutation_results.txt
mutants: setup
	@$(if $(EMU_OBJECTS),$(MAKE) --no-print-directory -j$$(nproc) $(BUILD)/llm_tests \
	  $(BUILD)/race_tests && scripts/mutate_kernels.py --build $(BUILD),\
	  echo "mutants: skipped: no CUDA headers")

# The readers and their fuzz targets, built apart with clang (tests/fuzz/).
FUZZ_TARGETS := $(patsubst %.cpp,$(BUILD)/%,$(wildcard tests/fuzz/*_fuzz.cpp))
FUZZ_LIB := $(patsubst %.cpp,$(BUILD)/%.o,$(filter src/base/% src/io/% src/text/%,$(SOURCES)) \
  $(addprefix src/,model/model_config.cpp model/quant_config_parse.cpp model/rope.cpp \
  model/rope_parse.cpp quant/quant_config.cpp cli/output.cpp cli/line_reader.cpp \
  cli/tokenize_jsonl.cpp))
fuzz-targets: $(FUZZ_TARGETS)
$(FUZZ_TARGETS): LDFLAGS += -fsanitize=fuzzer
$(FUZZ_TARGETS): $(BUILD)/%: $(BUILD)/%.o $(FUZZ_LIB)
	$(LINK)
$(FUZZ_TARGETS:=.o): ALL_CXXFLAGS += -Itests/fuzz

fuzz: setup
	@tests/fuzz/run.sh --check
	@$(MAKE) --no-print-directory -j$$(nproc) CXX=clang++ BUILD=$(BUILD)/fuzz CXXFLAGS="-O1 -g" \
	  SANITIZE="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all" fuzz-targets
	@BUILD=$(BUILD)/fuzz FUZZ_SECONDS=$(FUZZ_SECONDS) tests/fuzz/run.sh

install: all
	install -D -m 755 $(BUILD)/llm $(DESTDIR)$(PREFIX)/bin/llm
	install -D -m 755 scripts/download_model.sh $(DESTDIR)$(PREFIX)/libexec/llm/download_model.sh
	install -D -m 644 models.txt $(DESTDIR)$(PREFIX)/libexec/llm/models.txt
	@scripts/install_docs.sh $(BUILD)/llm $(DESTDIR)$(PREFIX)

# What nobody calls is left out, since libstdc++ would ask for a newer libc than we do.
$(BUILD)/dist/llm: LDLIBS += $(CUDA_LDLIBS)
$(BUILD)/dist/llm: $(LLM_OBJECTS)
	@mkdir -p $(@D)
	$(LINK)

dist: all
	@scripts/dist.sh --check
	@$(MAKE) --no-print-directory LDFLAGS="-static-libstdc++ -static-libgcc -Wl,--gc-sections" \
	  $(BUILD)/dist/llm
	@$(MAKE) --no-print-directory install PREFIX= DESTDIR=$(BUILD)/dist/tree >/dev/null
	@scripts/dist.sh $(BUILD) $(VERSION) $(ARCH)

clean:
	rm -rf $(BUILD)

help:
	@sed -n '/^$$/q;s/^# \{0,1\}//p' Makefile

-include $(patsubst %.o,%.d,$(wildcard $(OBJECTS) $(CUDA_OBJECTS) $(TEST_OBJECTS) $(GPU_TEST_OBJECTS) \
  $(EMU_OBJECTS) $(EMU_TEST_OBJECTS) $(MEASURE_OBJECTS) $(EMU_MEASURE_OBJECTS) $(RACE_OBJECTS) \
  $(FUZZ_TARGETS:=.o) $(TIMING).o))
