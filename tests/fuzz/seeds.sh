#!/usr/bin/env bash
# Writes small valid inputs for every fuzz target. usage: tests/fuzz/seeds.sh CORPUS_DIR
set -euo pipefail
cd "$(dirname "$0")/../.."
corpus=$1
mkdir -p "$corpus"/{safetensors,config,tokenizer,messages,jsonl,jinja,npy}

little_endian() { # little_endian BYTES NUMBER
  local i n=$2
  for ((i = 0; i < $1; ++i, n >>= 8)); do printf '%b' "\\x$(printf %02x $((n & 255)))"; done
}

safetensors() { # safetensors NAME HEADER DATA_BYTES
  { little_endian 8 ${#2} && printf '%s' "$2" && head -c "$3" /dev/zero; } >"$corpus/safetensors/$1"
}
safetensors one '{"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]}}' 12
safetensors two '{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"I8","shape":[],"data_offsets":[4,5]}}' 5
safetensors none '{}' 0
safetensors odd '{"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]},"e":{"dtype":"F64","shape":[0,9],"data_offsets":[1,1]}}' 1
printf 'version https://git-lfs.github.com/spec/v1\n' >"$corpus/safetensors/pointer"

for file in tests/goldens/*.json models/*/config.json models/*/generation_config.json; do
  # A golden may hold a whole config and large tables; targets read small files.
  [ -e "$file" ] && head -c 4000 "$file" >"$corpus/config/$(tr / - <<<"$file")"
done
config='"hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":320,"rms_norm_eps":1e-6,"hidden_act":"silu","max_position_embeddings":4096'
printf '{"architectures":["Qwen3ForCausalLM"],%s,"num_key_value_heads":2,"head_dim":32,"tie_word_embeddings":true,"eos_token_id":[1,2],"rope_parameters":{"rope_type":"yarn","factor":4.0,"rope_theta":1e6,"original_max_position_embeddings":1024}}' "$config" >"$corpus/config/qwen3"
printf '{"architectures":["LlamaForCausalLM"],%s,"rope_theta":5e5,"attention_bias":true,"rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":1024}}' "$config" >"$corpus/config/llama"
printf '{"architectures":["Qwen2ForCausalLM"],%s,"quantization_config":{"quant_method":"gptq","bits":4,"group_size":128}}' "$config" >"$corpus/config/qwen2"
printf '{"do_sample":true,"temperature":0.6,"top_k":20,"top_p":0.95,"min_p":0.0,"repetition_penalty":1.1,"eos_token_id":[1,2]}' >"$corpus/config/generation"

tokenizer() { # tokenizer NAME PRE_TOKENIZER MERGES NORMALIZER
  printf '{"version":"1.0","truncation":null,"padding":null,"added_tokens":[{"id":7,"content":"<end>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],"normalizer":%s,"pre_tokenizer":%s,"post_processor":null,"decoder":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":false},"model":{"type":"BPE","dropout":null,"unk_token":null,"ignore_merges":false,"byte_fallback":false,"vocab":{"a":0,"b":1,"ab":2,"\\u0120":3,"\\u0120ab":4,"\\u00e4":5,"1":6},"merges":%s}}' \
    "$4" "$2" "$3" >"$corpus/tokenizer/$1"
}
byte_level='{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":true}'
tokenizer strings "$byte_level" '["a b","\u0120 ab"]' '{"type":"NFC"}'
split='{"type":"Split","pattern":{"Regex":"(?i:'"'"'s)|[^\\r\\n\\p{L}]?\\p{Lu}++|\\d{1,3}(?=[a-c]|(?:ab)*?)|\\s+(?!\\S)|."},"behavior":"MergedWithNext","invert":true}'
tokenizer split "{\"type\":\"Sequence\",\"pretokenizers\":[$split,{\"type\":\"ByteLevel\",\"use_regex\":false}]}" '["a b"]' null
tokenizer pairs "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true},$byte_level]}" '[["a","b"]]' null

printf '%s' '[{"role":"user","content":"hi"},{"role":"assistant","content":null,"reasoning":"x","tool_calls":[{"type":"function","function":{"name":"f","arguments":{"t":22}}}]},{"role":"tool","content":{"t":[1,2.5,null]}}]' >"$corpus/messages/list"
printf '%s' '{"messages":[{"role":"system","content":""},{"role":"user","content":[{"type":"text","text":"<|im_end|>"}]}],"tools":[{"type":"function","function":{"name":"f","parameters":{}}}]}' >"$corpus/messages/object"

printf '%s' '{"text":"ab <|im_end|><think>\u4e2d","special":false}' >"$corpus/jsonl/text"
printf '%s' '{"text":"a\ud83d\ude00","plain":true,"special":null}' >"$corpus/jsonl/plain"
printf '%s' '{"ids":[0,1,2147483647],"skip_special":true}' >"$corpus/jsonl/ids"

number=0
while IFS= read -r template; do
  number=$((number + 1))
  printf '%s' "$template" >"$corpus/jinja/$number"
done <<'END'
{%- for m in messages if m.role != 'tool' -%}{{ loop.index0 ~ m.content | trim }}{% else %}none{% endfor %}
{% set ns = namespace(a=1, b=[]) %}{% set ns.a = ns.a + 1 %}{{ ns.a // 2 ** 3 % 5 - -1 }}
{% macro f(x, y='d', *args, **kw) %}{{ x }}{{ caller() if caller }}{% endmacro %}{% call f(1) %}in{% endcall %}
{{ s.split(' ')[::-1] | join(', ') | upper | replace('A', 'b') | default('x', true) }}{{ x is defined and n < 0 }}
{{ tools | tojson(indent=2) }}{{ '%s %5.2f' % ('a', 1.5) }}{{ '{:>8}'.format(s) }}{{ "é"[0] }}
{% generation %}{{ messages[-1]['tool_calls'][0].function.arguments.items() | list }}{% endgeneration %}
{% for k, v in (tools[0].function.parameters | dictsort) %}{{ k }}={{ v }}{% if loop.last %}{% break %}{% endif %}{% endfor %}
{{ list | sort(reverse=true) | batch(2, 0) | list }}{{ list | map('string') | select('in', ['1']) | first }}{{ big }}
{% filter indent(2, true) %}a{% raw %}{{ }}{% endraw %}{# note #}{% endfilter %}{{ range(1, 9, 3) | sum }}{{ raise_exception('no') }}
{{ messages | groupby('role') }}{{ list | unique | slice(2) | list }}{{ x | round(1, 'floor') }}{{ s.center(9).title() }}{{ dict(a=1) }}
END
if [ -e scripts/tiny/chat_template.jinja ]; then cp scripts/tiny/chat_template.jinja "$corpus/jinja/"; fi

npy() { # npy NAME HEADER DATA_BYTES
  { printf '\x93NUMPY\x01\x00' && little_endian 2 ${#2} && printf '%s' "$2" && head -c "$3" /dev/zero; } >"$corpus/npy/$1"
}
npy matrix "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" 24
npy empty "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 7), }" 0
npy other "{'descr': '<f8', 'fortran_order': True, 'shape': (2,), }" 16
