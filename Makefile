# Concury. `make help` lists the targets. Non-recursive; everything it makes is below build/.

# Debian packages: to build, to run what was built (and the demo), and (besides) to test.
BUILD_PACKAGES := gcc make pkg-config clang llvm bpftool libc6-dev linux-libc-dev libxdp-dev libbpf-dev \
	libelf-dev zlib1g-dev libmnl-dev libmicrohttpd-dev libjansson-dev libsqlite3-dev libyaml-dev \
	libcurl4-gnutls-dev libgnutls28-dev libseccomp-dev libcap-dev libjs-chart.js dpkg-dev
RUN_PACKAGES := $(BUILD_PACKAGES) iproute2 ethtool procps util-linux curl jq nginx-light
TEST_PACKAGES := check python3 python3-yaml python3-jsonschema wrk iperf3 iputils-ping clang-format \
	clang-tidy cppcheck libclang-rt-14-dev openssl nftables prometheus spin tcpdump groff-base python3-scapy \
	chromium fonts-dejavu-core qemu-system-x86 busybox-static cpio xz-utils libngtcp2-dev libngtcp2-crypto-gnutls-dev \
	debootstrap lintian systemd gnuplot-nox

BUILD ?= build
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-8s %s\n' '$(1)' '$(2)')

CC := gcc
BPF_CC := clang
VERSION := $(shell cat VERSION 2>/dev/null || echo 0.1.0)
# What the programs are built from; the user's own clone is also root's to read.
COMMIT := $(or $(SOURCE_COMMIT),$(if $(wildcard .git),$(shell git -c safe.directory='$(CURDIR)' describe \
	--always --dirty --abbrev=12 --exclude '*' 2>/dev/null)),unknown)
SANITIZE ?=
OPT ?= -O2 -g
# The packet path crosses files: link-time optimization takes a tenth off a packet. Objects are fat, so
# that the many test programs link quickly without it.
LTO := $(if $(SANITIZE),,-flto -ffat-lto-objects)
LTO_LINK := $(if $(SANITIZE),,-flto=auto $(OPT))
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 -Werror
CPPFLAGS += -Iforwarder -I. -I$(BUILD)/gen -D_GNU_SOURCE -DCONCURY_VERSION='"$(VERSION)"'
CFLAGS += -std=gnu11 $(OPT) $(WARN) -fno-omit-frame-pointer -pthread $(SANITIZE) $(LTO)
LDFLAGS += -pthread $(SANITIZE) -Wl,--as-needed,-z,relro,-z,now
LDLIBS += -lxdp -lbpf -lmnl -lmicrohttpd -ljansson -lsqlite3 -lgnutls -lseccomp -lcap -lcurl -lm

LIB_SRC := $(wildcard forwarder/base/*.c forwarder/lookup/*.c forwarder/packet/*.c \
	forwarder/worker/*.c forwarder/control/*.c schema/*.c api/server/*.c api/client/agent_*.c \
	api/client/ctl_*.c) \
	$(filter-out %.bpf.c,$(wildcard forwarder/io/*.c))
UNIT_SRC := $(wildcard tests/unit/test_*.c)
BENCH_SRC := $(wildcard tests/bench/bench_*.c)
EXPERIMENT_SRC := $(wildcard tests/experiment/*.c)
SUPPORT_SRC := $(filter-out $(UNIT_SRC),$(wildcard tests/unit/*.c)) \
	$(filter-out $(BENCH_SRC) %.bpf.c,$(wildcard tests/bench/*.c tests/bench/peers/*.c))
# The simulation has its own objects: with faults to switch on, and with small sizes.
SIM_PROGRAMS := sim scenarios
SIM_SRC := $(wildcard forwarder/base/*.c forwarder/lookup/*.c forwarder/packet/*.c forwarder/worker/*.c \
	forwarder/control/*.c tests/sim/*.c) $(filter-out schema/openapi.c,$(wildcard schema/*.c)) \
	api/client/agent_table.c api/client/agent_talk.c forwarder/io/port_mem.c tests/unit/frames.c \
	tests/unit/mem_store.c tests/unit/persist_equal.c tests/unit/world.c
SIM_WRAP := malloc calloc realloc free aligned_alloc posix_memalign eventfd close
SIM := $(patsubst %,$(BUILD)/sim/%,$(SIM_PROGRAMS))
MAIN_SRC := $(wildcard forwarder/*.c)
BPF_SRC := $(wildcard forwarder/io/*.bpf.c)
TEST_BPF_SRC := $(wildcard tests/e2e/*.bpf.c tests/bench/*.bpf.c)

obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
LIB := $(BUILD)/libconcury.a
SUPPORT := $(BUILD)/libtest.a
SKEL := $(patsubst forwarder/io/%.bpf.c,$(BUILD)/gen/%.skel.h,$(BPF_SRC))
TEST_BPF := $(patsubst %.bpf.c,$(BUILD)/%.bpf.o,$(TEST_BPF_SRC))
QUIC_PEERS := $(addprefix $(BUILD)/tests/e2e/quic/,client server)
UNIT := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(UNIT_SRC))
BENCH := $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(BENCH_SRC))
EXPERIMENT_PROGRAMS := simulated wire flood crowd
EXPERIMENT := $(EXPERIMENT_PROGRAMS:%=$(BUILD)/experiment/%)
BIN := $(BUILD)/bin/concuryd
AGENT := $(BUILD)/bin/concury-agent
CTL := $(BUILD)/bin/concuryctl
# The dashboard: what lies in web/, and the charts.
CHARTS := /usr/share/javascript/chart.js/chart.min.js
WEB := $(patsubst web/%,$(BUILD)/web/%,$(wildcard web/*.html web/*.css web/*.js web/*.svg)) \
	$(BUILD)/web/$(notdir $(CHARTS))
MAN := $(addprefix $(BUILD)/man/,concuryctl.1 concuryd.8 concury-agent.8)
COMPLETION := $(BUILD)/completion/concuryctl
UNITS := $(addprefix $(BUILD)/systemd/,concury.service concury-agent.service)

# Where `make install` puts them; DESTDIR is put in front of each.
PREFIX ?= /usr/local
prefix ?= $(PREFIX)
bindir ?= $(prefix)/bin
sbindir ?= $(prefix)/sbin
libdir ?= $(prefix)/lib
datadir ?= $(prefix)/share
mandir ?= $(datadir)/man
docdir ?= $(datadir)/doc/concury
sysconfdir ?= /etc
unitdir ?= $(libdir)/systemd/system
completiondir ?= $(datadir)/bash-completion/completions

.DELETE_ON_ERROR:
.SECONDARY: # keep the object files of programs
.PHONY: all help man deps deps-build deps-test unit golden zerocopy-check links-check demo demo-clean check layers asan tsan bench bench-all bench-readme figures lint format clean \
	unit-build bench-build sim-build sim soak experiment experiment-build asan-build tsan-build \
	install uninstall deb debian-root container-check FORCE

all: $(BIN) $(AGENT) $(CTL) $(MAN) $(WEB) ## Build concuryd, concuryctl and concury-agent (build/bin/), man pages, the dashboard

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

deps: ## Install what building and running needs (Debian packages; root)
	@tests/install-packages.sh $(RUN_PACKAGES)

deps-build: ## Install what building alone needs
	@tests/install-packages.sh $(BUILD_PACKAGES)

deps-test: ## Install what testing needs too
	@tests/install-packages.sh $(RUN_PACKAGES) $(TEST_PACKAGES)
	@tests/install-npm.sh tests/e2e/client tests/e2e/dashboard

$(BIN): $(call obj,$(MAIN_SRC)) $(LIB)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $(LTO_LINK) -o $@ $^ $(LDLIBS)

$(AGENT): $(call obj,api/client/agent.c) $(LIB)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $(LTO_LINK) -o $@ $^ -lcurl $(LDLIBS)

$(CTL): $(call obj,api/client/ctl.c) $(LIB)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $(LTO_LINK) -o $@ $^ -lcurl -ljansson -lm

$(BUILD)/web/%: web/%
	$(call say,WEB,$@)
	@mkdir -p $(@D)
	$(Q)cp $< $@

$(BUILD)/web/$(notdir $(CHARTS)): $(CHARTS)
	$(call say,WEB,$@)
	@mkdir -p $(@D)
	$(Q)cp $< $@

# Each program knows its own options.
man: $(MAN) ## Make the man pages alone (build/man/)

$(BUILD)/man/concuryctl.1: $(CTL)
	$(call say,MAN,$@)
	@mkdir -p $(@D)
	$(Q)$< man > $@

$(BUILD)/man/%.8: man/%.8.in man/options.awk $(BUILD)/bin/%
	$(call say,MAN,$@)
	@mkdir -p $(@D)
	$(Q)$(BUILD)/bin/$* --help | awk -f man/options.awk > $@.options
	$(Q)sed -e 's/@VERSION@/$(VERSION)/' -e '/^@OPTIONS@/{' -e 'r $@.options' -e 'd' -e '}' $< > $@
	@rm -f $@.options

# Written anew only when it is another one.
$(BUILD)/gen/commit: FORCE
	@mkdir -p $(@D)
	@echo '$(COMMIT)' | cmp -s - $@ || echo '$(COMMIT)' > $@
FORCE:

NAMES_COMMIT := $(call obj,forwarder/main.c api/client/agent.c api/client/ctl.c)
$(NAMES_COMMIT): $(BUILD)/gen/commit
$(NAMES_COMMIT): CPPFLAGS += -DCONCURY_COMMIT='"$(COMMIT)"'

$(COMPLETION): $(CTL)
	$(call say,GEN,$@)
	@mkdir -p $(@D)
	$(Q)$< completion bash > $@

# The directories are part of the units.
$(BUILD)/systemd/%: .packaging/%.in FORCE
	@mkdir -p $(@D)
	@sed -e 's,@sbindir@,$(sbindir),' -e 's,@sysconfdir@,$(sysconfdir),' $< > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

$(LIB): $(call obj,$(LIB_SRC))
	$(call say,AR,$@)
	$(Q)rm -f $@; gcc-ar rcs $@ $^

$(SUPPORT): $(call obj,$(SUPPORT_SRC))
	$(call say,AR,$@)
	@mkdir -p $(@D)
	$(Q)rm -f $@; gcc-ar rcs $@ $^

$(BUILD)/obj/%.o: %.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# The generated skeleton must be there before the sources that include it are compiled.
$(call obj,$(filter forwarder/io/%,$(LIB_SRC))): | $(SKEL)

# .incbin is invisible to -MMD.
$(BUILD)/obj/schema/migrations.o: $(wildcard schema/migrations/*.sql)
$(BUILD)/obj/schema/openapi.o: $(BUILD)/gen/openapi.json
# Top-level assembly does not survive it.
$(BUILD)/obj/schema/migrations.o $(BUILD)/obj/schema/openapi.o: LTO :=

# The API's description: written in YAML, served in JSON.
$(BUILD)/tool/yaml2json: schema/tool/yaml2json.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O1 -D_GNU_SOURCE $(WARN) -o $@ $< -lyaml -ljansson

$(BUILD)/gen/openapi.json: schema/openapi.yaml $(BUILD)/tool/yaml2json
	$(call say,JSON,$@)
	@mkdir -p $(@D)
	$(Q)$(BUILD)/tool/yaml2json $< > $@

$(BUILD)/%.bpf.o: %.bpf.c
	$(call say,BPF,$<)
	@mkdir -p $(@D)
	$(Q)$(BPF_CC) -O2 -g -target bpf -Wall -Werror -I/usr/include/$(shell $(CC) -dumpmachine) \
		-Iforwarder -MMD -MP -c -o $@ $<

# Kept, though only the skeleton needs some: make would delete those as intermediate.
.PRECIOUS: $(BUILD)/%.bpf.o $(BUILD)/sim-obj/%.o

$(BUILD)/gen/%.skel.h: $(BUILD)/forwarder/io/%.bpf.o
	$(call say,SKEL,$@)
	@mkdir -p $(@D)
	$(Q){ echo '/* NOLINTBEGIN: generated */'; bpftool gen skeleton $<; \
		echo '/* NOLINTEND */'; } > $@

$(BUILD)/unit/test_confine: UNIT_WRAP := getrlimit setrlimit
$(BUILD)/unit/test_preflight: UNIT_WRAP := getrlimit

$(BUILD)/unit/%: $(BUILD)/obj/tests/unit/%.o $(SUPPORT) $(LIB)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $(UNIT_WRAP:%=-Wl,--wrap=%) -fno-lto -o $@ $< $(SUPPORT) $(LIB) $(LDLIBS) $(shell pkg-config --libs check)

$(BUILD)/bench/%: $(BUILD)/obj/tests/bench/%.o $(SUPPORT) $(LIB)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $(LTO_LINK) -o $@ $< $(SUPPORT) $(LIB) $(LDLIBS)

$(EXPERIMENT): $(BUILD)/experiment/%: $(call obj,$(EXPERIMENT_SRC)) $(SUPPORT) $(LIB)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -fno-lto -o $@ $(call obj,tests/experiment/$*.c) \
		$(call obj,$(filter-out $(EXPERIMENT_PROGRAMS:%=tests/experiment/%.c),$(EXPERIMENT_SRC))) $(SUPPORT) $(LIB) $(LDLIBS)

$(QUIC_PEERS): $(BUILD)/tests/e2e/quic/%: $(BUILD)/obj/tests/e2e/quic/%.o $(BUILD)/obj/tests/e2e/quic/peer.o
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -fno-lto -o $@ $^ -lngtcp2_crypto_gnutls -lngtcp2 -lgnutls

# Not compiled for link-time optimization: the linker must see each call that it wraps.
$(BUILD)/sim-obj/%.o: %.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(filter-out -flto -ffat-lto-objects,$(CFLAGS)) -DCONCURY_FAULTS -MMD -MP -c -o $@ $<

$(BUILD)/sim-obj/schema/migrations.o: $(wildcard schema/migrations/*.sql)

$(BUILD)/sim/libsim.a: $(patsubst %.c,$(BUILD)/sim-obj/%.o,$(filter-out $(SIM_PROGRAMS:%=tests/sim/%.c),$(SIM_SRC)))
	$(call say,AR,$@)
	@mkdir -p $(@D)
	$(Q)rm -f $@; ar rcs $@ $^

$(BUILD)/sim/%: $(BUILD)/sim-obj/tests/sim/%.o $(BUILD)/sim/libsim.a
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $(SIM_WRAP:%=-Wl,--wrap=%) -o $@ $^ -lsqlite3 -lm

unit-build: $(UNIT)
sim-build: $(SIM)
bench-build: $(BENCH) $(TEST_BPF) $(QUIC_PEERS)
experiment-build: $(EXPERIMENT)

unit: unit-build ## Build and run the unit tests
	@tests/run.sh unit $(UNIT)

GOLDEN_FILES := in.pcap out.pcap cases.txt

golden: ## Make the golden frames anew, by scapy: the checked-in ones must be the same, byte for byte
	@mkdir -p $(BUILD)/golden
	@tests/golden/make.py $(BUILD)/golden
	@for f in $(GOLDEN_FILES); do cmp $(BUILD)/golden/$$f tests/golden/$$f || exit 1; done
	@echo "golden: $$(wc -l < tests/golden/cases.txt) frames"

sim: sim-build ## Build and run the deterministic simulation and its scenarios
	@tests/run.sh sim $(SIM)

zerocopy-check: all ## Boot a newer kernel in qemu, whose NICs have zero-copy mode, and run concuryd there
	@BUILD=$(BUILD) tests/zerocopy/run.sh

links-check: all ## The same for VLANs and bonds, which that kernel has
	@BUILD=$(BUILD) tests/zerocopy/links.sh

soak: sim-build ## Run the simulation with new seeds until stopped
	@$(BUILD)/sim/sim --soak

INSTALL := install -m 644 -D
# $(call keep,FILE,DIR,NAME): configuration that is there already is the operator's.
keep = [ -e '$(DESTDIR)$(2)/$(3)' ] || $(INSTALL) $(1) '$(DESTDIR)$(2)/$(3)'

install: all $(COMPLETION) $(UNITS) ## Install below PREFIX (/usr/local) and sysconfdir (/etc); DESTDIR in front
	install -m 755 -D -t '$(DESTDIR)$(sbindir)' $(BIN) $(AGENT)
	install -m 755 -D -t '$(DESTDIR)$(bindir)' $(CTL)
	$(INSTALL) $(BUILD)/forwarder/io/steer.bpf.o '$(DESTDIR)$(libdir)/concury/steer.bpf.o'
	$(INSTALL) -t '$(DESTDIR)$(datadir)/concury/web' $(WEB)
	$(INSTALL) -t '$(DESTDIR)$(datadir)/concury' $(BUILD)/gen/openapi.json schema/openapi.yaml
	$(INSTALL) -t '$(DESTDIR)$(mandir)/man1' $(filter %.1,$(MAN))
	$(INSTALL) -t '$(DESTDIR)$(mandir)/man8' $(filter %.8,$(MAN))
	$(INSTALL) -t '$(DESTDIR)$(docdir)' README.md LICENSE
	$(INSTALL) -t '$(DESTDIR)$(completiondir)' $(COMPLETION)
	$(INSTALL) -t '$(DESTDIR)$(unitdir)' $(UNITS)
	@$(call keep,.packaging/concury.default,$(sysconfdir)/default,concury)
	@$(call keep,.packaging/concury-agent.default,$(sysconfdir)/default,concury-agent)
	@$(call keep,.packaging/sysctl.conf,$(sysconfdir)/sysctl.d,60-concury.conf)

uninstall: ## Remove what `make install` put there; the database and the configuration stay
	rm -f '$(DESTDIR)$(sbindir)/concuryd' '$(DESTDIR)$(sbindir)/concury-agent' '$(DESTDIR)$(bindir)/concuryctl'
	rm -rf '$(DESTDIR)$(libdir)/concury' '$(DESTDIR)$(datadir)/concury' '$(DESTDIR)$(docdir)'
	rm -f $(foreach m,$(notdir $(MAN)),'$(DESTDIR)$(mandir)/man$(patsubst .%,%,$(suffix $(m)))/$(m)')
	rm -f '$(DESTDIR)$(completiondir)/concuryctl' $(foreach u,$(notdir $(UNITS)),'$(DESTDIR)$(unitdir)/$(u)')
	@echo "left: $(sysconfdir)/default/concury*, $(sysconfdir)/sysctl.d/60-concury.conf, /var/lib/concury;" \
		"concuryd --detach takes the XDP program off an interface, so do it before"

deb: all ## Make the Debian packages concury and concury-agent (build/deb/)
	@VERSION='$(VERSION)' .packaging/deb.sh $(BUILD)

# A fresh Debian, for the tests that install into one.
$(BUILD)/debian-root.tar: | tests/debian-root.sh
	$(call say,ROOT,$@)
	@rm -f $@
	@tests/debian-root.sh $@

debian-root: $(BUILD)/debian-root.tar

container-check: all ## Build the Dockerfile by buildah and run the image's root in namespaces (root; some minutes)
	@tests/install-packages.sh buildah
	@tests/e2e/container_check.py

demo: deps ## Show Concury at work: namespaces, nginx backends, real clients (root)
	@$(MAKE) --no-print-directory all $(TEST_BPF)
	@tests/e2e/demo.sh

demo-clean: ## Remove a demo that KEEP=1 left
	@tests/e2e/demo.sh clean

check: deps-test ## Install what is missing, build, run all tests; last line 'N passed, N failed' (root)
	@tests/check.sh

layers: ## Prove that includes point down only
	@tests/layers.sh

# Lines in reports need no more than -g1, and whole debug information takes long to write.
ASAN := BUILD=build/asan OPT="-O1 -g1" SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=all"
TSAN := BUILD=build/tsan OPT="-O1 -g1" SANITIZE="-fsanitize=thread"
# Where no thread can be started ThreadSanitizer has nothing to look at.
# One thread, stepped by hand, fills every table there is: minutes in which there is nothing to find.
UNTHREADED := $(BUILD)/unit/test_room
THREADED = threaded=$$(tests/threaded.sh $(filter-out $(UNTHREADED),$(UNIT))) && \
	threaded=$$(echo $$threaded | sed 's,$(BUILD)/unit/,build/tsan/unit/,g')

asan: ## Unit tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(MAKE) --no-print-directory $(ASAN) unit

tsan: unit-build ## Unit tests that can start threads under ThreadSanitizer
	@$(THREADED) && $(MAKE) --no-print-directory $(TSAN) UNIT="$$threaded" unit

asan-build:
	@$(MAKE) --no-print-directory $(ASAN) unit-build

tsan-build: unit-build
	@$(THREADED) && $(MAKE) --no-print-directory $(TSAN) UNIT="$$threaded" unit-build

bench-all: bench-build ## Run all benches, 20 minutes at most (QUICK=1: 2); prints tables, writes build/bench/*.json
	@tests/bench/run.py

figures: ## Draw what bench-all measured (build/bench/figures/: SVG, PNG)
	@tests/bench/figures.py

bench-readme: ## Write what bench-all measured into README.md and tests/bench/README.md
	@tests/bench/readme.py

bench: ## bench-all with QUICK=1
	@QUICK=1 $(MAKE) --no-print-directory bench-all

experiment: all experiment-build ## Lose and delay reports, change pools: Concury beside the paper's protocol (root)
	@tests/experiment/experiment.py

lint: $(SKEL) ## clang-tidy, cppcheck, layers
	@tests/lint.sh

format: ## clang-format all C sources in place
	@clang-format -i $$(git ls-files '*.c' '*.h')

clean: ## Remove build/
	$(Q)rm -rf build

-include $(shell find $(BUILD) -name '*.d' -type f 2>/dev/null)
