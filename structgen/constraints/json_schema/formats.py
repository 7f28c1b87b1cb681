"""stub"""
def format_language(name): return None
