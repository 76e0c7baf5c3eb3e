"""Stand-ins for the files with published prompts: the structure of their repositories, the wording ours."""

from __future__ import annotations

from pathlib import Path

MMSEARCH = {
    "prompts/prompt.py": '''
first = """Make a query.
Question: {question}
Query: """
second = """Pick {rerank_num} of {brief_result_num}, such as {incontext_example}.
Question: {question}
{website_information}
Pick: """
third = """Read {rerank_num} site.
{website_information}
Question: {question}
Reply: """

text_query_dict = {
        'stage1': first,
        'stage2': second,
        'stage3': third,
}
''',
    "prompts/prompt_w_imagesearch.py": '''
first_w_image = """Make a query about an image.
Question: {question}
Found: {image_search_result}
Query: """
second_w_image = """Pick {rerank_num} of {brief_result_num} for an image, such as {incontext_example}.
Question: {question}
Found: {image_search_result}
{website_information}
Pick: """
third_w_image = """Read {rerank_num} site for an image.
{website_information}
Found: {image_search_result}
Question: {question}.
Reply: """

image_search_text_query_dict = {
        'stage1': first_w_image,
        'stage2': second_w_image,
        'stage3': third_w_image,
}
''',
}

OMNISEARCH = {
    "src/Omnisearch_gpt/prompt.py": "sys_prompt_1 = '''Plan in steps.\nAsked:{}\n'''",
    "src/Omnisearch_gpt/conversation_manager.py": """
class Manager:
    def start(self, question, url):
        return [{"role": "user", "content": [
            {"type": "text", "text": prompt.sys_prompt_1.format(question)},
            {"type": "image_url", "image_url": {"url": url, "detail": "high"}},
        ]}]

    def prepare(self, images, texts, sub_question):
        if images:
            contents = [{"type": "text", "text": "Images found: "}]
            for image, txt in zip(images, texts):
                contents.extend([{"type": "image_url", "image_url": {}}, {"type": "text", "text": "Shown: " + txt}])
        else:
            contents = [{"type": "text", "text": "Documents found:"}]
            for txt in texts:
                contents.append({"type": "text", "text": txt})
            contents.append({"type": "text", "text": "\\nThe image:"})
            contents.append({"type": "text", "text": sub_question + " Solve:"})
            answer = self.ask(contents)
            contents = [{"type": "text", "text": "Solved: "}]
            contents.extend([{"type": "text", "text": answer}])
        return contents
""",
}

OMNISEARCH_TEXT = {
    "planner": "Plan. {question}",
    "retrieved_images": "Images:",
    "retrieved_documents": "Documents:",
    "input_image": "Image:",
    "solved": "Solved:",
    "sub_question": "{sub_question} Solve:",
    "description": "Shown: {description}",
}
"""The same prompts as a text file has them."""

VSA = {
    "models/vsa_prompt.py": '''
CAPTION_FORMAT = """
Say what the {label} is, for \\"{text}\\".
"""

CORRELATE_FORMAT = """
Correct \\"{caption}\\" by: {other_captions}
"""

QA_FORMAT = """
Reply to \\"{text}\\". \\
Perhaps: {contexts}
"""
''',
}

HEURISTIC = """\
=== heuristic
Found: {retrieved_images}{retrieved_texts}
Asked: {input_image} {input_question} Reply:
=== heuristic_zh
{retrieved_images}{retrieved_texts}{input_image}{input_question}
"""


def write_clone(folder: Path, files: dict[str, str]) -> Path:
    """Writes files as a clone of their repository has them, and returns its folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder
