"""Chat templates of the families of models, in short.

Each writes what its family's own template writes for turns of a user and an assistant, a system prompt excepted. Where a model
may think, the reply that is asked for begins with an empty thought, and turns of the past have none.
"""

#: Qwen 2 and 2.5.
CHATML = """\
{%- for turn in messages %}
{{- '<|im_start|>' + turn.role + '\\n' + turn.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

#: Qwen 3: an empty thought where the model is told not to think, and nothing where it may.
QWEN3 = (
    CHATML
    + """\
{%- if add_generation_prompt and enable_thinking is defined and not enable_thinking %}
{{- '<think>\\n\\n</think>\\n\\n' }}
{%- endif %}
"""
)

#: Qwen 3.5 and its relatives: an empty thought where the model is told not to think, and an open one where it may. Words lose the
#: spaces around them.
QWEN35 = """\
{%- for turn in messages %}
{{- '<|im_start|>' + turn.role + '\\n' }}
{{- (turn.content.split('</think>') | last | trim) + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n<think>\\n' }}
{%- if enable_thinking is defined and not enable_thinking %}
{{- '\\n</think>\\n\\n' }}
{%- endif %}
{%- endif %}
"""

#: LFM2 writes the marker of a text's begin itself.
LFM2 = "{{- bos_token }}" + CHATML

#: Llama 3.
LLAMA = """\
{{- bos_token }}
{%- for turn in messages %}
{{- '<|start_header_id|>' + turn.role + '<|end_header_id|>\\n\\n' + (turn.content | trim) + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

#: Gemma 4: an empty thought in a channel where the model is told not to think. The assistant is "model".
GEMMA4 = """\
{{- bos_token }}
{%- for turn in messages %}
{{- '<|turn>' + ('model' if turn.role == 'assistant' else turn.role) + '\\n' }}
{{- (turn.content.split('<channel|>') | last | trim) + '<turn|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|turn>model\\n' }}
{%- if not enable_thinking | default(false) %}
{{- '<|channel>thought\\n<channel|>' }}
{%- endif %}
{%- endif %}
"""

#: gpt-oss: the model itself names the channel of what it writes, "analysis" or "final", and cannot be told not to think. Turns of
#: the past are in the channel "final".
GPT_OSS = """\
{{- '<|start|>system<|message|>Reasoning: ' + (reasoning_effort or 'medium') + '<|end|>' }}
{%- for turn in messages %}
{{- '<|start|>' + turn.role + ('<|channel|>final' if turn.role == 'assistant' else '') }}
{{- '<|message|>' + turn.content + '<|end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|start|>assistant' }}
{%- endif %}
"""

#: Granite 4.
GRANITE = """\
{%- for turn in messages %}
{{- '<|start_of_role|>' + turn.role + '<|end_of_role|>' + turn.content + '<|end_of_text|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|start_of_role|>assistant<|end_of_role|>' }}
{%- endif %}
"""
