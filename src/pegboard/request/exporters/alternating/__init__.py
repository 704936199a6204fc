"""What Anthropic's messages and Bedrock's Converse have in common.

Turns of user and assistant that alternate, calls that the very next turn answers, and one judge of strict tools.
"""
